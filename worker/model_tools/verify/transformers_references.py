"""
Checkpoints in transformers, the implementation that defines what they compute. Needs torch; loaded on first use.

Shapes: T length · V vocabulary.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from jobs.errors import ModelError
from worker.model_tools.verify.numpy_causal import Floats
from worker.models.json_file import read_json

_NAME = "checkpoint, in transformers"


class TransformersSeq2Seq:
    """An AutoModelForSeq2SeqLM in float32."""

    name = _NAME

    def __init__(self, model: Any) -> None:
        self._model = model

    @classmethod
    def open(cls, folder: Path) -> Self:
        import torch
        from transformers import AutoModelForSeq2SeqLM

        _silence()
        return cls(AutoModelForSeq2SeqLM.from_pretrained(folder, dtype=torch.float32, local_files_only=True).eval())

    def logits(self, source: Sequence[int], target: Sequence[int]) -> Floats:
        """The logits (T, V) of the id that follows each id of `target` (T,)."""
        import torch

        with torch.no_grad():
            output = self._model(input_ids=torch.tensor([list(source)]), decoder_input_ids=torch.tensor([list(target)]))
        return np.asarray(output.logits[0].numpy(), np.float32)


class TransformersCausal:
    """An AutoModelForCausalLM in float32."""

    name = _NAME

    def __init__(self, model: Any) -> None:
        self._model = model

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Raises ModelError for what transformers cannot open."""
        import torch
        from transformers import AutoModelForCausalLM

        _silence()
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


class TransformersCrossEncoder:
    """An AutoModelForSequenceClassification in float32."""

    name = _NAME

    def __init__(self, model: Any) -> None:
        self._model = model

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Raises ModelError for what transformers cannot open."""
        import torch
        from transformers import AutoModelForSequenceClassification

        _silence()
        options: dict[str, Any] = {"dtype": torch.float32, "local_files_only": True, "attn_implementation": "eager"}
        try:
            model = AutoModelForSequenceClassification.from_pretrained(folder, **options)
        except (OSError, ValueError, KeyError, RuntimeError, ImportError) as error:
            why = str(error).strip().partition("\n")[0]
            raise ModelError(f"transformers cannot open the checkpoint {folder}: {why}") from error
        if model.config.model_type == "modernbert":
            model.config.reference_compile = False  # needs a C++ compiler
        return cls(model.eval())

    def logit(self, ids: Sequence[int], types: Sequence[int]) -> float:
        """The logit of a pair (T,)."""
        import torch

        has_types = getattr(self._model.config, "type_vocab_size", 0)
        more = {"token_type_ids": torch.tensor([list(types)])} if has_types else {}
        with torch.no_grad():
            return float(self._model(input_ids=torch.tensor([list(ids)]), **more).logits[0, 0])


def _silence() -> None:
    """No warnings and no progress bars on the terminal."""
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()


def _attention(config: Mapping[str, Any]) -> str:
    """The attention of transformers that follows the whole configuration. sdpa leaves out Gemma-2's soft cap and
    GPT-2's scale by layer; eager adds Falcon's ALiBi twice."""
    return "sdpa" if config.get("model_type") == "falcon" and config.get("alibi") else "eager"
