"""
Quantiles of any number of values in bounded memory.

A DDSketch (Masson, Rim and Lee 2019, VLDB 12): values are counted in buckets whose borders grow by a constant factor,
so each quantile is within 0.5 % of an exact one, whatever the distribution. Count, mean, deviation, least and greatest
are exact.

Knows: numbers. Does not know: what they measure.
"""

import math
from collections import Counter
from collections.abc import Iterator

ACCURACY = 0.005  # relative, of a quantile
LEAST = 1e-12  # a value closer to zero counts as zero
_GROWTH = math.log((1 + ACCURACY) / (1 - ACCURACY))  # of the borders of successive buckets


class Sketch:
    """Counts of values in at most some 4,000 buckets on either side of zero, for values up to 1e6."""

    def __init__(self) -> None:
        self.count = 0
        self.least = math.inf
        self.greatest = -math.inf
        self._mean = 0.0
        self._squares = 0.0  # summed squared distances from the mean
        self._above: Counter[int] = Counter()  # number of a bucket -> values in it
        self._below: Counter[int] = Counter()  # the same for negative values, by their size
        self._zeros = 0

    def add(self, value: float) -> None:
        """Count a finite value."""
        self.count += 1
        distance = value - self._mean
        self._mean += distance / self.count  # Welford: sums of squares of ten million values would lose digits
        self._squares += distance * (value - self._mean)
        self.least, self.greatest = min(self.least, value), max(self.greatest, value)
        if abs(value) < LEAST:
            self._zeros += 1
        elif value > 0:
            self._above[math.ceil(math.log(value) / _GROWTH)] += 1
        else:
            self._below[math.ceil(math.log(-value) / _GROWTH)] += 1

    @property
    def mean(self) -> float | None:
        return self._mean if self.count else None

    @property
    def standard_error(self) -> float | None:
        """The standard error of the mean; None for fewer than two values."""
        return math.sqrt(self._squares / (self.count - 1) / self.count) if self.count > 1 else None

    @property
    def num_zeros(self) -> int:
        return self._zeros

    @property
    def num_above(self) -> int:
        """Values greater than zero."""
        return sum(self._above.values())

    @property
    def num_below(self) -> int:
        """Values less than zero."""
        return sum(self._below.values())

    def quantile(self, share: float) -> float | None:
        """The smallest value that is at least as large as `share` (0 .. 1) of all values; None without a value."""
        if not self.count:
            return None
        rank = math.floor(share * (self.count - 1)) + 1
        for value, count in self.buckets():
            rank -= count
            if rank <= 0:
                return min(max(value, self.least), self.greatest)
        return self.greatest

    def buckets(self) -> Iterator[tuple[float, int]]:
        """The middle of each bucket that has values, and how many: in ascending order."""
        for number in sorted(self._below, reverse=True):
            yield -_middle(number), self._below[number]
        if self._zeros:
            yield 0.0, self._zeros
        for number in sorted(self._above):
            yield _middle(number), self._above[number]


def _middle(number: int) -> float:
    """The value that is within ACCURACY of both borders of a bucket."""
    return math.exp(number * _GROWTH) * (1 - ACCURACY)
