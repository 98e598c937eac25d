"""Positions of documents as ranges: those that a reader of results has seen, in a few characters.

Documents end in the order of their shards, several shards at a time, so that a million of them are a handful of ranges.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from jobs.errors import SpecError

_WRITTEN = re.compile(r"\d{1,18}-\d{1,18}(,\d{1,18}-\d{1,18})*", re.ASCII)


@dataclass(frozen=True, slots=True)
class PositionRanges:
    """Ranges [start, stop) of positions, ascending, none empty, no two adjacent."""

    ranges: tuple[tuple[int, int], ...] = ()

    def __str__(self) -> str:
        """`0-1500,1520-1600`; empty for none."""
        return ",".join(f"{start}-{stop}" for start, stop in self.ranges)

    @classmethod
    def parse(cls, written: str) -> "PositionRanges":
        """The reverse of `str`. Raises SpecError for another text."""
        if not written:
            return cls()
        found = cls()
        if _WRITTEN.fullmatch(written):
            numbers = [int(number) for number in re.split("[-,]", written)]
            found = cls(tuple(zip(numbers[::2], numbers[1::2], strict=True)))
        edges = [edge for both in found.ranges for edge in both]
        if not edges or any(left >= right for left, right in pairwise(edges)):
            raise SpecError(f"{written[:60]!r} is no place in the results of a job; begin without one")
        return found

    def with_positions(self, positions: Iterable[int]) -> "PositionRanges":
        """These ranges and some more positions."""
        merged: list[tuple[int, int]] = []
        for start, stop in sorted([*self.ranges, *((position, position + 1) for position in positions)]):
            if merged and start <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(stop, merged[-1][1]))
            else:
                merged.append((start, stop))
        return PositionRanges(tuple(merged))

    def gaps(self) -> Iterator[tuple[int, int | None]]:
        """The ranges between these, the first one from 0; the last one has no end."""
        start = 0
        for next_start, stop in self.ranges:
            if start < next_start:
                yield start, next_start
            start = stop
        yield start, None
