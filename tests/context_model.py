"""A tiny causal model in numpy: the log-probability of a token depends on every token before it."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from worker.engine.causal.protocol import Group, LogProbs
from worker.engine.runtime.buffer_stats import BufferStats
from worker.engine.runtime.run_context import RunContext


class ContextModel:
    """`broken`: id -> the log-probability of this token in any context, such as NaN. `readers` keeps every reader, with
    the groups that it read."""

    def __init__(
        self, vocab_size: int, max_positions: int, *, seed: int = 0, broken: Mapping[int, float] | None = None
    ) -> None:
        self.vocab_size = vocab_size
        self.max_positions = max_positions
        self.broken = broken or {}
        self.readers: list[ContextReader] = []
        self._states = np.random.default_rng(seed).normal(size=(101, vocab_size))

    def new_reader(self, *, is_packed: bool = True) -> "ContextReader":
        self.readers.append(ContextReader(self, is_packed))
        return self.readers[-1]

    def log_prob(self, context: Sequence[int], token_id: int) -> float:
        """log p(token | context); the context is not empty."""
        if token_id in self.broken:
            return self.broken[token_id]
        state = 7
        for before in context:
            state = (31 * state + before + 1) % len(self._states)
        logits = self._states[state]
        return float(logits[token_id] - np.log(np.exp(logits).sum()))


class ContextReader:
    """Yields the last group first, because the protocol promises no order."""

    buffer_stats: BufferStats = BufferStats()

    def __init__(self, model: ContextModel, is_packed: bool) -> None:
        self.is_packed = is_packed
        self.groups: list[Group] = []
        self._model = model

    def read(self, groups: Sequence[Group], run: RunContext) -> Iterator[tuple[int, list[LogProbs]]]:
        self.groups.extend(groups)
        for index, group in reversed(list(enumerate(groups))):
            assert group.longest <= self._model.max_positions
            with run.measure("prefill", rows=1, tokens=group.longest):
                yield index, [self._score(group, number) for number in range(len(group.suffixes))]

    def _score(self, group: Group, suffix: int) -> LogProbs:
        ids = [*group.prefix, *group.suffixes[suffix]]
        first = max(1, len(group.prefix) + group.num_given(suffix))
        return np.array([self._model.log_prob(ids[:place], ids[place]) for place in range(first, len(ids))], np.float32)
