"""A causal model without a network: the log-probability of a token is a hash of it and all tokens before it."""

import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from worker.engine.causal.protocol import Group, LogProbs
from worker.engine.runtime.buffer_stats import BufferStats
from worker.engine.runtime.run_context import RunContext

BOS = 256


class HashingModel:
    """`broken`: token -> the non-finite value of every log-probability after that token."""

    def __init__(self, max_positions: int = 2000, vocab_size: int = 257, broken: dict[int, float] | None = None):
        self.max_positions = max_positions
        self.vocab_size = vocab_size
        self.broken = broken or {}
        self.read: list[Group] = []

    def new_reader(self, *, is_packed: bool = True) -> "HashingReader":
        return HashingReader(self)

    def log_prob(self, context: Sequence[int], token: int) -> float:
        for breaks, value in self.broken.items():
            if breaks in context:
                return value
        return -1 - zlib.crc32(np.array([*context, token], np.int32).tobytes()) / 2**30


class HashingReader:
    """Yields the groups out of order, as a real reader may."""

    buffer_stats: BufferStats = BufferStats()

    def __init__(self, model: HashingModel) -> None:
        self.model = model

    def read(self, groups: Sequence[Group], run: RunContext) -> Iterator[tuple[int, list[LogProbs]]]:
        self.model.read += groups
        for index in sorted(range(len(groups)), key=lambda index: groups[index].longest):
            run.raise_if_stopped("groups")
            assert groups[index].longest <= self.model.max_positions
            with run.measure("prefill", rows=1, tokens=groups[index].longest):
                yield index, [self._read_suffix(groups[index], number) for number in range(len(groups[index].suffixes))]

    def _read_suffix(self, group: Group, number: int) -> LogProbs:
        context, suffix, num_given = list(group.prefix), group.suffixes[number], group.num_given(number)
        assert len(suffix) > num_given
        found = []
        for token in suffix:
            assert 0 <= token < self.model.vocab_size
            found.append(self.model.log_prob(context, token))
            context = [*context, token]
        return np.array(found[num_given:], np.float32)


class ByteTokenizer:
    """Every byte is a token."""

    def __init__(self, bos_id: int | None = BOS) -> None:
        self.bos_id = bos_id
        self.max_id = BOS
        self.encoded: list[str] = []

    def encode(self, text: str) -> Any:
        self.encoded.append(text)
        return _Encoded(list(text.encode()))


class _Encoded:
    def __init__(self, ids: list[int]) -> None:
        self.ids = ids
