"""The numpy reference is compared with transformers, and native models with both."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from tests.checkpoints import write_marian_checkpoint
from worker.graphs.precision import Precision
from worker.model_tools.add.add import Request, add_model
from worker.model_tools.verify.numpy_seq2seq import NumpySeq2Seq
from worker.model_tools.verify.references import open_seq2seq_reference
from worker.model_tools.verify.seq2seq import VerifiedSeq2Seq
from worker.model_tools.verify.transformers_references import TransformersSeq2Seq
from worker.model_tools.verify.verify import verify
from worker.models.model_folder import ModelFolder

pytestmark = [pytest.mark.timeout(600), pytest.mark.filterwarnings("default")]

SHAPES = {
    "swish": {"activation": "swish"},
    "relu": {"activation": "relu", "width": 24, "heads": 3},
    "gelu": {"activation": "gelu"},
    "separate": {"target_vocab_size": 61},
    "bf16": {"dtype": "BF16"},
}


@pytest.mark.parametrize("shape", SHAPES)
def test_both_references_give_the_same_results(tmp_path: Path, shape: str) -> None:
    folder = write_marian_checkpoint(tmp_path / shape, **SHAPES[shape])  # type: ignore[arg-type]
    plain, reference = NumpySeq2Seq.open(folder), TransformersSeq2Seq.open(folder)
    rng = np.random.default_rng(1)

    for length in (1, 2, 7, 30):
        source, target = rng.integers(2, 60, length).tolist(), rng.integers(2, 60, 2 * length).tolist()
        np.testing.assert_allclose(plain.logits(source, target), reference.logits(source, target), atol=2e-5)


@pytest.mark.parametrize("precision", [Precision.FP32, Precision.INT8])
def test_transformers_is_the_reference_if_it_is_installed(tmp_path: Path, precision: Precision) -> None:
    checkpoint = write_marian_checkpoint(tmp_path / "tiny")
    added = add_model(Request(source=str(checkpoint), precision=precision), tmp_path / "models")
    folder = ModelFolder(added.name, Path(added.path))
    rng = np.random.default_rng(2)
    sources = [[*rng.integers(2, 60, 6).tolist(), 0] for _ in range(20)]

    found = {check.name: check for check in verify(folder, sources, VerifiedSeq2Seq())}

    assert isinstance(open_seq2seq_reference(checkpoint), TransformersSeq2Seq)
    assert found["checkpoint"].against == "checkpoint, in transformers"
    assert found["checkpoint"].verdict == ("same" if precision is Precision.FP32 else "measured")
    assert not any(check.has_failed for check in found.values())
