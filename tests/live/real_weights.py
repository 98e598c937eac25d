"""Models with published weights, as they are added, and how far int8 may be from fp32 on real texts."""

from dataclasses import dataclass
from pathlib import Path

from bench.checkpoints.published import write_published
from worker.graphs.precision import Precision
from worker.model_tools.add.add import Request, add_model


@dataclass(frozen=True, slots=True)
class Bound:
    """How far int8 may be from fp32, on the texts of `NUM_TEXTS`."""

    change: float  # of the perplexity, in percent
    mean: float  # nats a token
    worst: float  # nats, of a single token


# About three times the change, and one and a half times the rest, as measured on 2026-11-26 (AMD EPYC, AVX-512 VNNI):
# SmolLM2 -0.50 %, 0.094, 2.17; Gemma-3 +0.51 %, 0.082, 0.83. Before rows were mixed, Gemma-3 +11.9 %, 0.278, 2.17.
BOUNDS = {
    "smollm2": Bound(change=1.5, mean=0.14, worst=3.3),
    "gemma3": Bound(change=1.5, mean=0.14, worst=1.3),
}
NUM_TEXTS = {"smollm2": 24, "gemma3": 8}


@dataclass(frozen=True, slots=True)
class RealModel:
    """A checkpoint, and the models that are made of it."""

    name: str
    checkpoint: Path
    fp32: Path
    int8: Path


def add_real_model(name: str, root: Path) -> RealModel:
    """Write the checkpoint, and add it in both precisions."""
    checkpoint = write_published(name, root / name)
    added = {
        precision: Path(
            add_model(Request(source=str(checkpoint), precision=precision, name=f"{name}-{precision}"), root).path
        )
        for precision in (Precision.FP32, Precision.INT8)
    }
    return RealModel(name, checkpoint, added[Precision.FP32], added[Precision.INT8])
