"""
Checkpoints in transformers, the implementation that defines what they compute. Needs torch; loaded on first use.

Shapes: T length · V vocabulary.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from jobs.errors import ModelError
from worker.model_tools.verify.numpy_parts import Floats
from worker.models.json_file import read_json


class _OpenedModel:
    """A model of transformers."""

    name = "checkpoint, in transformers"

    def __init__(self, model: Any) -> None:
        self._model = model


class TransformersSeq2Seq(_OpenedModel):
    """An AutoModelForSeq2SeqLM in float32."""

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Raises ModelError for a checkpoint that transformers cannot open; so do the other references."""
        return cls(_open("AutoModelForSeq2SeqLM", folder))

    def logits(self, source: Sequence[int], target: Sequence[int]) -> Floats:
        """The logits (T, V) of the id that follows each id of `target` (T,)."""
        import torch

        with torch.no_grad():
            output = self._model(input_ids=torch.tensor([list(source)]), decoder_input_ids=torch.tensor([list(target)]))
        return np.asarray(output.logits[0].numpy(), np.float32)


class TransformersCausal(_OpenedModel):
    """An AutoModelForCausalLM in float32."""

    @classmethod
    def open(cls, folder: Path) -> Self:
        attention = _attention(read_json(folder / "config.json"))
        return cls(_open("AutoModelForCausalLM", folder, attn_implementation=attention))

    def log_probs(self, sequences: Sequence[Sequence[int]]) -> list[Floats]:
        return [self._log_probs_of(ids) for ids in sequences]

    def _log_probs_of(self, ids: Sequence[int]) -> Floats:
        import torch

        if len(ids) < 2:
            return np.empty(0, np.float32)
        tokens = torch.tensor([list(ids)])
        with torch.no_grad():
            # Without the last token, which predicts nothing: some models read all others differently because of it.
            output = self._model(input_ids=tokens[:, :-1], use_cache=False)
            log_probs = torch.log_softmax(output.logits[0], -1).gather(1, tokens[0, 1:, None])
        return np.asarray(log_probs[:, 0].numpy(), np.float32)


class TransformersCrossEncoder(_OpenedModel):
    """An AutoModelForSequenceClassification in float32."""

    @classmethod
    def open(cls, folder: Path) -> Self:
        model = _open("AutoModelForSequenceClassification", folder, attn_implementation="eager")
        if model.config.model_type == "modernbert":
            model.config.reference_compile = False  # needs a C++ compiler
        return cls(model)

    def logit(self, ids: Sequence[int], types: Sequence[int]) -> float:
        """The logit of a pair (T,)."""
        import torch

        has_types = getattr(self._model.config, "type_vocab_size", 0)
        more = {"token_type_ids": torch.tensor([list(types)])} if has_types else {}
        with torch.no_grad():
            return float(self._model(input_ids=torch.tensor([list(ids)]), **more).logits[0, 0])


def _open(auto_class: str, folder: Path, **options: Any) -> Any:
    """The checkpoint in `folder` in float32, without warnings and progress bars on the terminal."""
    import torch
    import transformers

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    try:
        model = getattr(transformers, auto_class).from_pretrained(
            folder, dtype=torch.float32, local_files_only=True, **options
        )
    except (OSError, ValueError, KeyError, RuntimeError, ImportError) as error:
        why = str(error).strip().partition("\n")[0]
        raise ModelError(f"transformers cannot open the checkpoint {folder}: {why}") from error
    return model.eval()


def _attention(config: Mapping[str, Any]) -> str:
    """The attention of transformers that follows the whole configuration. sdpa leaves out Gemma-2's soft cap and
    GPT-2's scale by layer; eager adds Falcon's ALiBi twice."""
    return "sdpa" if config.get("model_type") == "falcon" and config.get("alibi") else "eager"
