"""What a causal model makes of texts: the log-probabilities of their tokens, and how it continues their beginnings."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.harness.text_drift import Read
from worker.engine.causal.open import open_causal_model, open_causal_tokenizer
from worker.engine.causal.protocol import CausalModel, Group, read_all
from worker.engine.runtime.run_context import RunContext
from worker.engine.search.continuation_rules import ContinuationRules

NEW_TOKENS = 24  # of each continuation
_PROMPTS = 40
_PROMPT_TOKENS = 24  # at most, and at most half of a text


def read_texts(folder: Path, sequences: Sequence[Sequence[int]]) -> Read:
    """Score the sequences with the model in `folder`, and continue the beginnings of the first."""
    model = open_causal_model(folder)
    return Read(log_probs_of(model, sequences), _continued(model, prompts_of(sequences)))


def log_probs_of(model: CausalModel, sequences: Sequence[Sequence[int]]) -> NDArray[np.float64]:
    """Of every token but the first of each sequence."""
    found = read_all(model.new_reader(), [Group((), (sequence,)) for sequence in sequences], RunContext())
    return np.concatenate([each for group in found for each in group]).astype(np.float64)


def prompts_of(sequences: Sequence[Sequence[int]]) -> list[list[int]]:
    """The beginnings that are continued."""
    return [list(sequence[: min(_PROMPT_TOKENS, len(sequence) // 2)]) for sequence in sequences[:_PROMPTS]]


def _continued(model: CausalModel, prompts: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    continued: list[tuple[int, ...]] = [()] * len(prompts)
    rules = ContinuationRules(max_new_tokens=NEW_TOKENS)
    for ended in model.new_generator().generate(prompts, rules, RunContext(), batch_size=len(prompts)):
        for place, continuation in ended:
            continued[place] = tuple(continuation.ids)
    return continued


def sequences_of(folder: Path, texts: Sequence[str]) -> list[list[int]]:
    """The texts as ids of the model in `folder`, behind what it wants before a text."""
    tokenizer = open_causal_tokenizer(folder)
    return [tokenizer.encode_prompt(text) for text in texts]
