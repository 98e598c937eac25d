"""How far one causal model is from another that should give the same: in log-probabilities, and in greedy texts."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from worker.engine.causal.open import open_causal_model, open_causal_tokenizer
from worker.engine.causal.protocol import CausalModel, Group, read_all
from worker.engine.runtime.run_context import RunContext
from worker.engine.search.continuation_rules import ContinuationRules

_NEW_TOKENS = 24
_PROMPTS = 12
_PROMPT_TOKENS = 24  # at most, and at most half of a text


@dataclass(frozen=True, slots=True)
class Read:
    """What a model makes of texts."""

    log_probs: NDArray[np.float64]  # of every token that has another before it
    continued: list[tuple[int, ...]]  # what follows each prompt, greedily


@dataclass(frozen=True, slots=True)
class Drift:
    """How far a model is from the reference."""

    perplexity: float
    change: float  # of the perplexity, in percent
    mean: float  # nats a token, absolute
    worst: float  # nats, of a single token
    equal: int  # greedy texts that are the reference's, of `prompts`
    prompts: int


def read_texts(folder: Path, sequences: Sequence[Sequence[int]]) -> Read:
    """Score the sequences with the model in `folder`, and continue the beginnings of the first."""
    model = open_causal_model(folder)
    return Read(log_probs_of(model, sequences), _continued(model, sequences[:_PROMPTS]))


def log_probs_of(model: CausalModel, sequences: Sequence[Sequence[int]]) -> NDArray[np.float64]:
    """Of every token but the first of each sequence."""
    found = read_all(model.new_reader(), [Group((), (sequence,)) for sequence in sequences], RunContext())
    return np.concatenate([each for group in found for each in group]).astype(np.float64)


def _continued(model: CausalModel, sequences: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    prompts = [sequence[: min(_PROMPT_TOKENS, len(sequence) // 2)] for sequence in sequences]
    continued: list[tuple[int, ...]] = [()] * len(prompts)
    rules = ContinuationRules(max_new_tokens=_NEW_TOKENS)
    for ended in model.new_generator().generate(prompts, rules, RunContext(), batch_size=len(prompts)):
        for place, continuation in ended:
            continued[place] = tuple(continuation.ids)
    return continued


def drift(read: Read, reference: Read) -> Drift:
    """How far `read` is from `reference`, which read the same."""
    gaps = np.abs(read.log_probs - reference.log_probs)
    return Drift(
        perplexity=perplexity(read.log_probs),
        change=100 * (perplexity(read.log_probs) / perplexity(reference.log_probs) - 1),
        mean=float(gaps.mean()),
        worst=float(gaps.max()),
        equal=sum(one == other for one, other in zip(read.continued, reference.continued, strict=True)),
        prompts=len(reference.continued),
    )


def perplexity(log_probs: NDArray[np.float64]) -> float:
    return math.exp(-float(log_probs.mean()))


def sequences_of(folder: Path, texts: Sequence[str]) -> list[list[int]]:
    """The texts as ids of the model in `folder`, behind what it wants before a text."""
    tokenizer = open_causal_tokenizer(folder)
    return [tokenizer.encode_prompt(text) for text in texts]
