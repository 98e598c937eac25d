"""Looking for a few rows among many, window by window, until the time is over.

Ten million documents cannot be searched while somebody waits for a page, so a page says how far it has looked, and goes
on from there when asked.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

Row = TypeVar("Row")
Where = TypeVar("Where")

FIRST_WINDOW = 64  # rows; a document may be as long as a book
GROWTH = 4  # at most, from one window to the next


@dataclass(frozen=True, slots=True)
class Window(Generic[Row, Where]):
    """What a look at some rows has found."""

    found: list[Row]  # in order, at most as many as asked for
    end: Where | None  # behind the last row looked at; None: nothing is left behind it


@dataclass(frozen=True, slots=True)
class Scan(Generic[Row, Where]):
    """What was found, and how far the search came."""

    found: list[Row]
    stopped: Where | None  # the time was over here; None: enough was found, or nothing is left
    num_looked: int  # rows in the windows, at most


def scan(
    look: Callable[[Where, int, int], Window[Row, Where]], start: Where, wanted: int, budget_s: float
) -> Scan[Row, Where]:
    """Call `look(where, width, wanted)` for windows of growing width, from `start` on, until `wanted` rows are found,
    nothing is left, or the next window would take longer than what is left of `budget_s`."""
    found: list[Row] = []
    width, num_looked, until = FIRST_WINDOW, 0, time.monotonic() + budget_s
    while True:
        began = time.monotonic()
        window = look(start, width, wanted - len(found))
        found += window.found
        num_looked += width
        if len(found) >= wanted or window.end is None:
            return Scan(found, None, num_looked)
        start = window.end
        now = time.monotonic()
        # Half of what would fit: the next rows may be slower to read than these.
        fits = int(width * (until - now) / 2 / max(now - began, 1e-4))
        if fits < FIRST_WINDOW:
            return Scan(found, start, num_looked)
        width = min(width * GROWTH, fits)
