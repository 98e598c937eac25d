"""On a processor whose int8 sums saturate, int8 must not be used. This processor is exact; the other is simulated."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load_file, save_file

from jobs.errors import ModelError
from tests.checkpoints import write_marian_checkpoint
from worker.engine.runtime import native_precision
from worker.engine.runtime.int8_probe import int8_is_exact
from worker.engine.seq2seq.native import graphs as native_graphs
from worker.engine.seq2seq.native.model import NativeSeq2Seq
from worker.graphs import marian
from worker.graphs.precision import Precision
from worker.model_tools.add.add import Request, add_model

Add = Callable[[Precision], Path]


@pytest.fixture
def add(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Add:
    """A function that makes a model in a precision, before the probe is patched; even its tiny head is screened."""
    monkeypatch.setattr(marian, "LARGE_HEAD", 8)
    write_marian_checkpoint(tmp_path / "checkpoint")
    file = tmp_path / "checkpoint" / "model.safetensors"
    tensors = load_file(file)
    tensors["final_logits_bias"][:] = 0  # a head with a bias is not screened
    save_file(tensors, file, metadata={"format": "pt"})

    def make(precision: Precision) -> Path:
        request = Request(source=str(tmp_path / "checkpoint"), precision=precision, name=str(precision))
        return Path(add_model(request, tmp_path).path)

    return make


def inexact(*_: Any) -> bool:
    return False


def test_this_processor_computes_int8_exactly() -> None:
    assert int8_is_exact(), "without exact int8, the int8 tests are meaningless"


def test_a_model_in_int8_is_refused_on_an_inexact_processor(add: Add, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = add(Precision.INT8)
    monkeypatch.setattr(native_precision, "int8_is_exact", inexact)

    with pytest.raises(ModelError, match=r"lacks VNNI.*--precision fp32"):
        NativeSeq2Seq.open(folder)


def test_no_head_is_screened_in_int8_on_an_inexact_processor(add: Add, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = add(Precision.FP32)
    assert NativeSeq2Seq.open(folder).graphs.screened_decoder() is not None
    monkeypatch.setattr(native_graphs, "int8_is_exact", inexact)

    assert NativeSeq2Seq.open(folder).graphs.screened_decoder() is None
