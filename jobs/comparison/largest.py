"""The largest of any number of values, in bounded memory."""

import heapq
from typing import Generic, TypeVar

T = TypeVar("T")


class Largest(Generic[T]):
    """Keeps the `limit` items with the largest values; of equal ones, those that came first."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._heap: list[tuple[float, int, T]] = []
        self._added = 0

    def add(self, value: float, item: T) -> None:
        self._added += 1
        entry = (value, -self._added, item)
        if len(self._heap) < self._limit:
            heapq.heappush(self._heap, entry)
        elif self._heap and entry > self._heap[0]:
            heapq.heapreplace(self._heap, entry)

    def items(self) -> list[tuple[float, T]]:
        """Value and item, the largest value first."""
        return [(value, item) for value, _, item in sorted(self._heap, reverse=True)]
