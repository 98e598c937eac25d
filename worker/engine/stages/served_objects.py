"""The objects that the process of a stage holds, each with a number, by which other processes call its methods."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from worker.engine.runtime.buffer_stats import BufferStats


class Opener(Protocol):
    """Makes the first object of a process, in it; it is pickled on the way there."""

    def open(self) -> Any:
        """Raises ModelError where the stage cannot be opened."""


@dataclass(frozen=True, slots=True)
class ObjectCall:
    """A call of an object."""

    number: int  # of the object
    method: str
    arguments: tuple[Any, ...]
    keeps: bool = False  # whether the result becomes an object of the process; then the answer is its number


class ServedObjects:
    """The objects of one process."""

    def __init__(self, first: Any) -> None:
        self._objects: dict[int, Any] = {0: first}
        self._next = 1

    def forget(self, numbers: Sequence[int]) -> None:
        """Drop objects."""
        for number in numbers:
            del self._objects[number]

    def answer(self, request: ObjectCall) -> tuple[Any, BufferStats]:
        """Carry out a call: its result, and the memory of the object's buffers. Raises the errors of the method."""
        called = self._objects[request.number]
        found = getattr(called, request.method)(*request.arguments)
        if request.keeps:
            self._objects[self._next] = found
            found = self._next
            self._next += 1
        return found, getattr(called, "buffer_stats", BufferStats())
