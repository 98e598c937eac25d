"""Tiny native causal models, and the numpy references of their checkpoints."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.causal_checkpoints import write_causal_checkpoint, write_kv_model
from worker.engine.causal.native.model import NativeCausal
from worker.engine.causal.protocol import Group, LogProbs
from worker.graphs import embeddings
from worker.graphs.precision import Precision
from worker.model_tools.verify.numpy_causal import NumpyCausal

VOCAB_SIZE, MAX_POSITIONS = 300, 96
MODELS: dict[str, dict[str, Any]] = {
    "llama": {},
    "llama, biases, own head, heads of 10": {"attention_bias": True, "mlp_bias": True, "tied": False, "head_size": 10},
    "mistral": {"kv_heads": 1},
    "mistral, window": {"sliding_window": 6},
    "qwen2": {},
    "qwen3": {"head_size": 24},
}


@dataclass(frozen=True)
class TinyCausal:
    """A tiny native model, and the numpy reference of its checkpoint."""

    model: NativeCausal
    reference: NumpyCausal
    folder: Path

    def expected(self, group: Group) -> list[LogProbs]:
        """The log-probabilities that a reader has to give for this group, from the reference."""
        whole = self.reference.log_probs([[*group.prefix, *suffix] for suffix in group.suffixes])
        firsts = [max(0, len(group.prefix) + group.num_given(suffix) - 1) for suffix in range(len(group.suffixes))]
        return [log_probs[first:] for log_probs, first in zip(whole, firsts, strict=True)]


def write_tiny(folder: Path, name: str, precision: Precision, layers: int = 2) -> TinyCausal:
    """The model of this name in `MODELS`; in int8 its table of embeddings is in int8, however small."""
    checkpoint = write_causal_checkpoint(
        folder / "checkpoint",
        name.split(",")[0],
        vocab_size=VOCAB_SIZE,
        max_positions=MAX_POSITIONS,
        layers=layers,
        **MODELS[name],
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(embeddings, "LEAST", 0)
        kv = write_kv_model(checkpoint, folder / "kv", precision)
    return TinyCausal(NativeCausal.open(kv), NumpyCausal.open(checkpoint), kv)
