"""A histogram: bins with fixed borders for shares, or even ones that follow from the values."""

import bisect
import math
from collections.abc import Sequence
from dataclasses import dataclass

from jobs.comparison.quantiles import Sketch

NUM_BINS = 30  # of a histogram whose borders follow from the values
TAIL = 0.01  # share of the values that the first and the last bin may hold beyond their width


@dataclass(frozen=True, slots=True)
class Bin:
    """Values from `start` (not included) to `stop` (included); equal for a bin that holds one value."""

    start: float
    stop: float
    documents: int


class FixedBins:
    """Counts between given borders. What equals the first border has a bin of its own."""

    def __init__(self, borders: Sequence[float]) -> None:
        self._borders = borders
        self._counts = [0] * len(borders)

    def add(self, value: float) -> None:
        """Count a value from the first to the last border."""
        self._counts[min(bisect.bisect_left(self._borders, value), len(self._counts) - 1)] += 1

    def bins(self) -> list[Bin]:
        starts = (self._borders[0], *self._borders)
        return [
            Bin(start, stop, count) for start, stop, count in zip(starts, self._borders, self._counts, strict=False)
        ]


def even_bins(sketch: Sketch, number: int = NUM_BINS) -> list[Bin]:
    """Bins of one width over all values but the outermost, which are counted in the first and the last bin; zero is a
    border, so that no bin holds both signs. A single bin where all values are equal."""
    low, high = sketch.quantile(TAIL), sketch.quantile(1 - TAIL)
    if low is None or high is None:
        return []
    if low == high:
        low, high = sketch.least, sketch.greatest
    if low == high:
        return [Bin(low, high, sketch.count)]
    width = _round_width((high - low) / number)
    first, last = math.floor(low / width), math.ceil(high / width)
    counts = [0] * (last - first)
    for value, count in sketch.buckets():
        index = math.ceil(value / width) - 1 - first
        counts[min(max(index, 0), len(counts) - 1)] += count
    return [Bin((first + at) * width, (first + at + 1) * width, count) for at, count in enumerate(counts)]


def _round_width(width: float) -> float:
    """The next of 1, 2, 5, 10, 20 ... (and of their fractions), so that borders read well."""
    power = 10.0 ** math.floor(math.log10(width))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= width * (1 - 1e-9))
