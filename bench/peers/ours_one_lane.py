"""kvjobs as a worker of one lane with one thread; see `ours`, which made the model."""

from pathlib import Path

from bench.peers.ours import Layout, Model, configuration, head_size, run

__all__ = ["configuration", "head_size", "prepare", "run"]


def prepare(checkpoint: Path, folder: Path, precision: str) -> Model:
    """Open the model; `checkpoint` is not used."""
    return Model(folder / f"ours-{precision}", Layout(1, 1))
