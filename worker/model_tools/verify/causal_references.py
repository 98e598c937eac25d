"""
Who knows what a causal checkpoint says of a text: an implementation that is not ours, or one that is as simple as can
be.

Shapes: T length.
"""

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np

from jobs.errors import ModelError
from worker.model_tools.verify.numpy_causal import Floats, NumpyCausal
from worker.models.checkpoint.checkpoint import Checkpoint
from worker.models.json_file import read_json


class CausalReference(Protocol):
    """An opinion on texts."""

    @property
    def name(self) -> str: ...

    def log_probs(self, sequences: Sequence[Sequence[int]]) -> list[Floats]:
        """Of each token but the first, given those before it: (T - 1,) for each sequence (T,)."""


def open_causal_reference(folder: Path) -> CausalReference:
    """The best judge of the checkpoint in `folder` that this machine has; raises ModelError for one that is damaged, or
    that the one in numpy does not know."""
    if find_spec("torch") and find_spec("transformers"):
        return TransformersCausalReference.open(folder)
    return NumpyCausalReference.open(folder)


class NumpyCausalReference:
    """numpy, from the weights."""

    name = "checkpoint, in numpy"

    def __init__(self, twin: NumpyCausal) -> None:
        self._twin = twin

    @classmethod
    def open(cls, folder: Path) -> Self:
        checkpoint = Checkpoint.open(folder)
        return cls(NumpyCausal(checkpoint.config, checkpoint.weights))

    def log_probs(self, sequences: Sequence[Sequence[int]]) -> list[Floats]:
        return self._twin.log_probs(sequences)


class TransformersCausalReference:
    """Those who defined what the checkpoint means."""

    name = "checkpoint, in transformers"

    def __init__(self, model: object) -> None:
        self._model = model

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Raises ModelError for what transformers cannot open."""
        import torch
        from transformers import AutoModelForCausalLM
        from transformers.utils import logging

        logging.set_verbosity_error()
        logging.disable_progress_bar()
        try:
            model = AutoModelForCausalLM.from_pretrained(
                folder,
                dtype=torch.float32,
                local_files_only=True,
                attn_implementation=_attention(read_json(folder / "config.json")),
            )
        except (OSError, ValueError, KeyError, RuntimeError, ImportError) as error:
            why = str(error).strip().partition("\n")[0]
            raise ModelError(f"transformers cannot open the checkpoint {folder}: {why}") from error
        return cls(model.eval())

    def log_probs(self, sequences: Sequence[Sequence[int]]) -> list[Floats]:
        return [self._of_one(ids) for ids in sequences]

    def _of_one(self, ids: Sequence[int]) -> Floats:
        import torch

        if len(ids) < 2:
            return np.empty(0, np.float32)
        given = torch.tensor([list(ids)])
        with torch.no_grad():
            # Not the last token, which foretells nothing: some models read all others in another way for it.
            said = self._model(input_ids=given[:, :-1], use_cache=False)  # type: ignore[operator]  # not there where types are checked
            of_next = torch.log_softmax(said.logits[0], -1).gather(1, given[0, 1:, None])
        return np.asarray(of_next[:, 0].numpy(), np.float32)


def _attention(config: Mapping[str, Any]) -> str:
    """Which of transformers' implementations does all that a configuration asks for. sdpa leaves out Gemma-2's soft cap
    and GPT-2's scale by layer; eager, of Falcon, adds ALiBi twice."""
    return "sdpa" if config.get("model_type") == "falcon" and config.get("alibi") else "eager"
