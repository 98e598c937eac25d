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


# What was measured on 2026-11-26 (AMD EPYC with AVX-512 VNNI), and half as much again.
BOUNDS = {
    "smollm2": Bound(change=9.0, mean=0.6, worst=9.0),
    "gemma3": Bound(change=9.0, mean=0.6, worst=9.0),
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
