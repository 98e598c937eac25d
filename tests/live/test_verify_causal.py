"""The numpy reference is compared with transformers, and native causal models with both."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from tests.causal_checkpoints import write_causal_checkpoint
from worker.graphs.precision import Precision
from worker.model_tools.add.add import Request, add_model
from worker.model_tools.verify.causal import VerifiedCausal
from worker.model_tools.verify.numpy_causal import NumpyCausal
from worker.model_tools.verify.references import open_causal_reference
from worker.model_tools.verify.transformers_references import TransformersCausal
from worker.model_tools.verify.verify import verify
from worker.models.model_folder import ModelFolder

pytestmark = [pytest.mark.timeout(600), pytest.mark.filterwarnings("default")]

LLAMA3 = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}  # fmt: skip
SHAPES = {
    "llama": ("llama", {}),
    "llama, scaled": ("llama", {"rope_scaling": LLAMA3, "attention_bias": True, "mlp_bias": True, "tied": False}),
    "llama, linear": ("llama", {"rope_scaling": {"rope_type": "linear", "factor": 2.0}}),
    "mistral": ("mistral", {}),
    "mistral, window": ("mistral", {"sliding_window": 9}),
    "qwen2": ("qwen2", {"kv_heads": 1}),
    "qwen2, window": ("qwen2", {"use_sliding_window": True, "sliding_window": 7, "max_window_layers": 1}),
    "qwen3": ("qwen3", {"head_size": 16}),
    "bf16": ("llama", {"dtype": "BF16"}),
}


def sequences() -> list[list[int]]:
    rng = np.random.default_rng(1)
    return [rng.integers(1, 260, length).tolist() for length in (2, 7, 30, 100)]


@pytest.mark.parametrize("shape", SHAPES)
def test_both_references_give_the_same_results(tmp_path: Path, shape: str) -> None:
    family, options = SHAPES[shape]
    folder = write_causal_checkpoint(tmp_path / "tiny", family, **options)  # type: ignore[arg-type]

    plain, reference = NumpyCausal.open(folder), TransformersCausal.open(folder)

    for found, expected in zip(plain.log_probs(sequences()), reference.log_probs(sequences()), strict=True):
        np.testing.assert_allclose(found, expected, atol=5e-5)


@pytest.mark.parametrize("precision", [Precision.FP32, Precision.INT8])
@pytest.mark.parametrize("family", ["llama", "mistral", "qwen2", "qwen3"])
def test_transformers_is_the_reference_if_it_is_installed(tmp_path: Path, family: str, precision: Precision) -> None:
    checkpoint = write_causal_checkpoint(tmp_path / "tiny", family)
    added = add_model(Request(source=str(checkpoint), precision=precision), tmp_path / "models")
    folder = ModelFolder(added.name, Path(added.path))

    found = {check.name: check for check in verify(folder, sequences(), VerifiedCausal())}

    assert isinstance(open_causal_reference(checkpoint), TransformersCausal)
    assert found["checkpoint"].against == "checkpoint, in transformers"
    assert found["checkpoint"].verdict == ("same" if precision is Precision.FP32 else "measured")
    assert not any(check.has_failed for check in found.values())


def test_a_setting_that_only_transformers_implements_is_compared_with_transformers(tmp_path: Path) -> None:
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}
    checkpoint = write_causal_checkpoint(tmp_path / "tiny", "llama", rope_scaling=yarn)
    added = add_model(Request(source=str(checkpoint)), tmp_path / "models")

    found = {
        check.name: check for check in verify(ModelFolder("tiny", Path(added.path)), sequences(), VerifiedCausal())
    }

    assert found["checkpoint"].verdict == "same"
