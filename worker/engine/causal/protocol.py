"""
The interface of a causal language model for tasks; native and exported graphs both implement it.

Knows: sequences of ids, that some share a prefix, that some are continued. Does not know: text, windows, templates,
graphs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from jobs.tasks.shared_options import CachePolicy
from worker.engine.runtime.buffer_stats import BufferStats
from worker.engine.runtime.run_context import RunContext
from worker.engine.search.continuation import Continuation, EndsIn
from worker.engine.search.continuation_rules import ContinuationRules, OwnRules
from worker.models.departures.departures import Departures

LogProbs = NDArray[np.float32]  # natural logarithms, one a token


@dataclass(frozen=True, slots=True)
class Group:
    """Sequences with a common prefix, which is computed once. Of each suffix the first `given` tokens are context; the
    rest is scored.

    Without a prefix, the first token of a suffix has no context and is not scored.
    """

    prefix: Sequence[int]
    suffixes: Sequence[Sequence[int]]  # none is empty
    given: Sequence[int] = ()  # for each suffix, how many tokens are not scored, never all; (): 0 for each

    @property
    def longest(self) -> int:
        """The length of its longest sequence, in tokens."""
        return len(self.prefix) + max(map(len, self.suffixes))

    def num_given(self, suffix: int) -> int:
        """How many tokens at the beginning of a suffix are not scored."""
        return self.given[suffix] if self.given else 0


class Reader(Protocol):
    """One lane's buffers for a model whose sessions all lanes share."""

    @property
    def buffer_stats(self) -> BufferStats: ...
    def read(self, groups: Sequence[Group], run: RunContext) -> Iterator[tuple[int, list[LogProbs]]]:
        """Yield each group once, in any order, by its index among `groups`, with an array for each of its suffixes:
        log p(token | prefix and the tokens of the suffix before it) of every token that is not given, or of all but the
        first where nothing is before it. No group affects another. NaN and infinities come out as the model gave them.

        Every group has `longest` <= max_positions + 1: the last token of a sequence is a target and is not fed. Raises
        what the model raises, and Stopped between two of its calls.
        """


Generated = list[tuple[int, Continuation]]  # the index of each prompt


class Generator(Protocol):
    """One lane's buffers for continuing prompts."""

    @property
    def buffer_stats(self) -> BufferStats: ...
    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        rules: ContinuationRules,
        run: RunContext,
        *,
        batch_size: int,
        shares_prefixes: bool = True,
        ends_in: EndsIn | None = None,
        own_rules: Sequence[OwnRules] = (),
    ) -> Iterator[Generated]:
        """Yield each prompt once, in any order, by its index among `prompts`. No prompt affects another.

        None is empty or longer than `max_positions`. At most `batch_size` run at a time, and fewer if they do not fit
        into memory. `shares_prefixes`: read a beginning that many have once, and equal prompts once. `ends_in`: asked
        after each token whether the continuation ends there. `own_rules`: of each prompt, in place of those in `rules`;
        none: all have the same. Log-probabilities are NaN where the model's numbers are
        not finite. Raises the error of a single prompt that does not fit, what else the model raises, and Stopped
        between two of its calls.
        """


class CausalModel(Protocol):
    """An open model, shared by the lanes of a process."""

    @property
    def max_positions(self) -> int:
        """The longest sequence that the model reads, in tokens."""

    @property
    def vocab_size(self) -> int:
        """The size of the vocabulary: ids are below it."""

    def computes_in_float32(self) -> bool:
        """Whether the graphs compute in float32 throughout, so that only the order of sums can change a result."""

    @property
    def is_running(self) -> bool:
        """False once a process that runs a part of the model has ended: it has to be opened again."""

    @property
    def departures(self) -> Departures:
        """How the graphs differ from what the configuration asks for."""

    def new_reader(self, *, is_packed: bool = True) -> Reader:
        """One lane's reader. `is_packed`: many sequences per call, and shared prefixes computed once, as far as the
        graphs allow it; else one sequence after another."""

    @property
    def continuation_rules(self) -> ContinuationRules:
        """The rules that the model's own files set for continuations. Raises ModelError for a rule that is not
        supported."""

    def new_generator(self, policy: CachePolicy = CachePolicy()) -> Generator:  # noqa: B008 - frozen
        """One lane's generator. Raises SpecError if the graphs cannot follow `policy`."""

    def new_whole_reader(self) -> Reader:
        """One lane's reader that reads one sequence after another, each in a single call, however much memory that
        takes: the reference that other readers are compared with."""


def read_all(reader: Reader, groups: Sequence[Group], run: RunContext) -> list[list[LogProbs]]:
    """The arrays of every group, in the order of the groups."""
    by_group = dict(reader.read(groups, run))
    return [by_group[index] for index in range(len(groups))]


class GroupResults:
    """Collects log-probabilities until a group is complete."""

    def __init__(self, groups: Sequence[Group]) -> None:
        self._groups = groups
        self._incomplete: dict[int, dict[int, LogProbs]] = {}  # by group, by suffix

    def add(self, group: int, suffix: int, log_probs: LogProbs) -> list[LogProbs] | None:
        """Add the log-probabilities of one suffix. Returns the arrays of all suffixes of the group, in their order,
        once the last one is there; else None."""
        results = self._incomplete.setdefault(group, {})
        results[suffix] = log_probs
        if len(results) < len(self._groups[group].suffixes):
            return None
        del self._incomplete[group]
        return [results[suffix] for suffix in range(len(results))]
