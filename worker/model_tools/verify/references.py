"""
Who knows what a checkpoint would say next: an implementation that is not ours, or one that is as simple as can be.

A judge is handed a whole translation and says, for each step, how likely it finds every token: no cache, one sentence.

Shapes: T target length · V vocabulary.
"""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol, Self

import numpy as np

from worker.model_tools.verify.numpy_marian import Floats, NumpyMarian
from worker.models.checkpoint.checkpoint import Checkpoint


class Reference(Protocol):
    """An opinion on translations."""

    @property
    def name(self) -> str: ...

    def logits(self, source: Sequence[int], target: Sequence[int]) -> Floats:
        """What follows each id of `target` (T,), which begins with the start token: (T, V)."""


def open_reference(folder: Path) -> Reference:
    """The best judge of the checkpoint in `folder` that this machine has; raises ModelError for a damaged one."""
    if find_spec("torch") and find_spec("transformers"):
        return TransformersReference.open(folder)
    return NumpyReference.open(folder)


class NumpyReference:
    """numpy, from the weights."""

    name = "checkpoint, in numpy"

    def __init__(self, twin: NumpyMarian) -> None:
        self._twin = twin

    @classmethod
    def open(cls, folder: Path) -> Self:
        checkpoint = Checkpoint.open(folder)
        return cls(NumpyMarian(checkpoint.config, checkpoint.weights))

    def logits(self, source: Sequence[int], target: Sequence[int]) -> Floats:
        return self._twin.logits(self._twin.encode(source), target)


class TransformersReference:
    """Those who defined what the checkpoint means."""

    name = "checkpoint, in transformers"

    def __init__(self, model: object) -> None:
        self._model = model

    @classmethod
    def open(cls, folder: Path) -> Self:
        import torch
        from transformers import MarianMTModel
        from transformers.utils import logging

        logging.set_verbosity_error()
        logging.disable_progress_bar()
        return cls(MarianMTModel.from_pretrained(folder, dtype=torch.float32, local_files_only=True).eval())

    def logits(self, source: Sequence[int], target: Sequence[int]) -> Floats:
        import torch

        with torch.no_grad():
            said = self._model(  # type: ignore[operator]  # a MarianMTModel, which is not there where types are checked
                input_ids=torch.tensor([list(source)]), decoder_input_ids=torch.tensor([list(target)])
            )
        return np.asarray(said.logits[0].numpy(), np.float32)
