"""The interface of a model family for `split`. `seq2seq.py` and `causal.py` implement it."""

from pathlib import Path
from typing import Protocol

from jobs.errors import SpecError
from worker.models.manifest import Manifest
from worker.models.model_folder import ModelFolder


class SplitFamily(Protocol):
    """The part of `split` that depends on the model family."""

    def cut(self, folder: ModelFolder, manifest: Manifest, target: Path, stages: int) -> tuple[int, ...]:
        """Write the stages of a model into `target`; how many layers each has. Raises SpecError where the model has too
        few, ModelError where it is damaged."""

    def try_stages(self, folder: Path) -> None:
        """Open every stage as a worker does, and give it a few tokens. Raises what that raises: ModelError where a
        stage cannot be opened, StageDied where its process ended."""


def check_stages(folder: ModelFolder, has: str, stages: int, most: int) -> None:
    """Raise SpecError where a model is to have more stages than it can; `has`: what it is cut between."""
    if stages > most:
        raise SpecError(f"{folder.name} has {has}, so it can be split into {most} stages at most")
