"""Bars of equal width in time: of a short job from its batches, of a long one from the sums of its minutes.

A batch is spread over the bars of the time in which it was processed. Sums of minutes do not say how long each of their
batches took: all of a batch is in the minute in which it ended. So a bar of minutes is as wide as several batches are
long (`wide_enough_for`), and what it has too much or too little is a small part of it.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from jobs.store.report.timings.minutes import Interval, Intervals
from jobs.store.report.timings.recent_batches import BatchSummary

MOST_BARS = 60
BATCHES_A_BAR = 4  # batches of a lane that fit into a bar, where a batch counts in the minute of its end
WIDTHS_S = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400)


@dataclass(frozen=True, slots=True)
class Bars:
    """Sums over bars of `width_s` seconds, in the order of time; empty where nothing has a duration."""

    width_s: int
    starts: list[datetime]
    sums: list[tuple[float, ...]]

    @property
    def names(self) -> list[str]:
        """The start of each bar in the local time zone."""
        form = "%H:%M:%S" if self.width_s < 60 else "%m-%d %H:%M"
        return [at.astimezone().strftime(form) for at in self.starts]

    @property
    def x_name(self) -> str:
        if not self.starts:
            return "time"
        return f"time, {width_name(self.width_s)} a bar"


def width_name(seconds: int) -> str:
    """`30 s`, `5 min`, `2 h` or `7 d`."""
    units = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
    size, unit = next(pair for pair in units if seconds % pair[0] == 0)
    return f"{seconds // size} {unit}"


def wide_enough_for(batches: Sequence[BatchSummary]) -> float:
    """The seconds that a bar of minutes should have at least, by the mean duration of some batches of the job."""
    timed = [batch.busy_s for batch in batches if batch.busy_s > 0]
    return BATCHES_A_BAR * math.fsum(timed) / len(timed) if timed else 0.0


def of_minutes(intervals: Intervals, amounts_of: Callable[[Interval], tuple[float, ...]]) -> Bars:
    """A bar for each interval."""
    starts, sums = [interval.start for interval in intervals.all], [amounts_of(interval) for interval in intervals.all]
    return Bars(intervals.width_s, starts, sums)


def spread(batches: Sequence[BatchSummary], amounts_of: Callable[[BatchSummary], tuple[float, ...]]) -> Bars:
    """The amounts of each batch, spread evenly over the time that it took. At most about `MOST_BARS` bars."""
    timed = [batch for batch in batches if batch.busy_s > 0]
    if not timed:
        return Bars(1, [], [])
    first = min(batch.started_at for batch in timed).replace(microsecond=0)
    total = (max(batch.ended_at for batch in timed) - first).total_seconds()
    width = next((width for width in WIDTHS_S if total / width <= MOST_BARS), WIDTHS_S[-1])
    number = math.floor(total / width) + 1
    sums = [[0.0] * len(amounts_of(timed[0])) for _ in range(number)]
    for batch in timed:
        amounts = amounts_of(batch)
        start, stop = ((at - first).total_seconds() for at in (batch.started_at, batch.ended_at))
        for at, share in _shares(start, stop, width):
            for index, amount in enumerate(amounts):
                sums[at][index] += share * amount
    return Bars(
        width, [first + timedelta(seconds=width * at) for at in range(number)], [tuple(amounts) for amounts in sums]
    )


def _shares(start: float, stop: float, width: int) -> Iterator[tuple[int, float]]:
    """The bars that an interval touches, and its share in each. `start` and `stop` in seconds from the first bar."""
    for at in range(math.floor(start / width), math.floor(stop / width) + 1):
        seconds = min(stop, (at + 1) * width) - max(start, at * width)
        if seconds > 0:
            yield at, seconds / (stop - start)
