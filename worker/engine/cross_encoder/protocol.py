"""
The interface of a cross-encoder for tasks.

Knows: pairs as ids. Does not know: texts, graphs, how a score is made of a logit.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from worker.engine.runtime.buffer_stats import BufferStats
from worker.engine.runtime.run_context import RunContext


@dataclass(frozen=True, slots=True)
class PairIds:
    """A query with a document, as the model reads them."""

    ids: Sequence[int]  # special tokens included
    types: Sequence[int]  # for each token the type of query or document, by the tokenizer's template


class CrossEncoderScorer(Protocol):
    """One lane's part of a model whose session all lanes share."""

    @property
    def buffer_stats(self) -> BufferStats: ...
    def score(self, pairs: Sequence[PairIds], run: RunContext) -> Iterator[tuple[int, float]]:
        """Yield the logit of each pair once, in any order, by its index among `pairs`. No pair affects another. NaN and
        infinities come out as the model gave them.

        No pair is empty or longer than `max_positions`. Raises what the model raises, and Stopped between two of its
        calls.
        """


class CrossEncoder(Protocol):
    """An open model, shared by the lanes of a process."""

    @property
    def max_positions(self) -> int:
        """The longest pair that the model reads, in tokens, special tokens included."""

    @property
    def vocab_size(self) -> int:
        """The size of the vocabulary: ids are below it."""

    @property
    def token_types(self) -> int:
        """How many types of tokens the model tells apart; 0: none."""

    @property
    def padding_id(self) -> int | None:
        """The id whose tokens have no position of their own, so that no pair may have it; None: there is none."""

    def computes_in_float32(self) -> bool:
        """Whether the graph computes in float32 throughout, so that only the order of sums can change a result."""

    def new_scorer(self, *, is_packed: bool = True) -> CrossEncoderScorer:
        """One lane's scorer. `is_packed`: many pairs per call; else one pair after another."""


def score_all(scorer: CrossEncoderScorer, pairs: Sequence[PairIds], run: RunContext) -> list[float]:
    """The logit of every pair, in the order of the pairs."""
    by_pair = dict(scorer.score(pairs, run))
    return [by_pair[index] for index in range(len(pairs))]
