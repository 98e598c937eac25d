"""On a processor whose int8 sums saturate, weights are shifted to uint8; where that does not help, int8 is refused."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jobs.errors import ModelError
from tests.checkpoints import write_marian_checkpoint
from worker.engine.runtime import native_session
from worker.engine.runtime.native_session import Int8, attends_to_int8, exact_int8
from worker.engine.runtime.run_context import RunContext
from worker.engine.seq2seq.native import graphs as native_graphs
from worker.engine.seq2seq.native.decode_step import DecodeStep
from worker.engine.seq2seq.native.model import NativeSeq2Seq
from worker.graphs import matrix_products
from worker.graphs.graph_builder import GraphBuilder
from worker.graphs.precision import Precision
from worker.graphs.seq2seq import graphs as marian
from worker.graphs.unsigned_weights import with_unsigned_weights
from worker.graphs.weights import WrittenWeights
from worker.model_tools.add.add import Request, add_model

Add = Callable[[Precision], Path]


@pytest.fixture
def add(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Add:
    """A function that makes a model in a precision, before the probe is patched; even its tiny head is screened."""
    monkeypatch.setattr(marian, "LARGE_HEAD", 8)
    write_marian_checkpoint(tmp_path / "checkpoint", max_length=32)

    def make(precision: Precision) -> Path:
        request = Request(source=str(tmp_path / "checkpoint"), precision=precision, name=str(precision))
        return Path(add_model(request, tmp_path).path)

    return make


def every_array(model: NativeSeq2Seq) -> list[np.ndarray]:
    """Encoder states, and the logits of a step."""
    cross = model.graphs.encode(np.array([[3, 4, 5], [6, 7, 2]]))
    slots = model.graphs.new_slots()
    slots.allocate(2, 1, 8, 3)
    slots.append(cross)
    step = DecodeStep(model.graphs, replace(model.generation, num_beams=1))
    logits, scales = step.run(np.array([1, 1]), slots, RunContext(), 0)
    return [cross, logits, np.empty(0) if scales is None else scales]


def test_int8_is_exact_on_this_processor() -> None:
    assert exact_int8() is not Int8.NEITHER, "without exact int8, the int8 tests are meaningless"


def test_weights_in_uint8_give_the_bits_of_weights_in_int8(add: Add, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of small weights, whose sums no processor cuts."""
    exact_int8()  # cached, with whole weights
    monkeypatch.setattr(matrix_products._Columns, "quantized", property(small_weights))
    folder = add(Precision.INT8)

    found = []
    for kind in (Int8.SIGNED, Int8.UNSIGNED):
        monkeypatch.setattr(native_session, "exact_int8", lambda kind=kind: kind)
        found.append(every_array(NativeSeq2Seq.open(folder)))

    for signed, unsigned in zip(*found, strict=True):
        np.testing.assert_array_equal(signed, unsigned)


def test_attention_to_keys_and_values_in_int8_is_right_on_this_processor() -> None:
    assert attends_to_int8()


def test_a_model_that_keeps_keys_and_values_in_int8_is_refused_where_attention_to_them_is_wrong(
    add: Add, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = add(Precision.INT8)
    monkeypatch.setattr(native_graphs, "attends_to_int8", lambda: False)

    with pytest.raises(ModelError, match=r"in int8"):
        NativeSeq2Seq.open(folder)


def test_there_models_are_added_with_keys_and_values_in_float32(add: Add, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_session, "attends_to_int8", lambda: False)

    assert NativeSeq2Seq.open(add(Precision.INT8)).graphs.shape.dtype == np.float32


def test_a_model_in_int8_is_refused_where_no_int8_product_is_exact(add: Add, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = add(Precision.INT8)
    monkeypatch.setattr(native_session, "exact_int8", lambda: Int8.NEITHER)

    with pytest.raises(ModelError, match=r"--precision fp32"):
        NativeSeq2Seq.open(folder)


def test_no_head_is_screened_where_no_int8_product_is_exact(add: Add, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = add(Precision.FP32)
    assert NativeSeq2Seq.open(folder).graphs.screen() is not None
    monkeypatch.setattr(native_graphs, "exact_int8", lambda: Int8.NEITHER)

    assert NativeSeq2Seq.open(folder).graphs.screen() is None


def test_other_graphs_stay_as_they_are() -> None:
    graph = GraphBuilder("empty", WrittenWeights({})).model().SerializeToString()

    assert with_unsigned_weights(graph) is graph


def small_weights(columns: Any) -> np.ndarray:
    """7 bits of each weight."""
    halved: np.ndarray = columns._both()[0] // 2
    return halved
