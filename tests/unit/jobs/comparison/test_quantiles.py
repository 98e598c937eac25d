"""The sketch against quantiles, means and errors of all values."""

import math
import random
import statistics

import pytest

from jobs.comparison.bins import Bin, FixedBins, even_bins
from jobs.comparison.compare import Largest
from jobs.comparison.quantiles import ACCURACY, Sketch

GENERATOR = random.Random(7)
SAMPLES = {
    "normal": [GENERATOR.gauss(0.01, 0.2) for _ in range(5000)],
    "heavy tails": [math.exp(GENERATOR.gauss(0, 4)) * GENERATOR.choice((-1, 1)) for _ in range(5000)],
    "mostly zero": [GENERATOR.choice((0.0, 0.0, 0.0, -0.5, 2.0)) for _ in range(1000)],
    "one": [3.25],
}


def sketch_of(values: list[float]) -> Sketch:
    sketch = Sketch()
    for value in values:
        sketch.add(value)
    return sketch


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("share", [0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0])
def test_a_quantile_is_within_the_accuracy_of_the_exact_one(name: str, share: float) -> None:
    values = sorted(SAMPLES[name])

    exact = values[math.floor(share * (len(values) - 1))]
    assert sketch_of(values).quantile(share) == pytest.approx(exact, rel=1.01 * ACCURACY)


@pytest.mark.parametrize("name", ["normal", "heavy tails", "mostly zero"])
def test_mean_and_error_are_exact(name: str) -> None:
    values = SAMPLES[name]
    sketch = sketch_of(values)

    assert sketch.mean == pytest.approx(statistics.fmean(values))
    assert sketch.standard_error == pytest.approx(statistics.stdev(values) / math.sqrt(len(values)))
    assert (sketch.least, sketch.greatest) == (min(values), max(values))
    assert (sketch.num_below, sketch.num_zeros, sketch.num_above) == (
        sum(value < 0 for value in values),
        values.count(0.0),
        sum(value > 0 for value in values),
    )


def test_the_memory_does_not_grow_with_the_number_of_values() -> None:
    sketch = sketch_of([10.0 ** GENERATOR.uniform(-12, 6) for _ in range(50_000)])

    assert len(list(sketch.buckets())) < 4200


def test_nothing_has_neither_quantile_nor_mean() -> None:
    assert (Sketch().quantile(0.5), Sketch().mean, Sketch().standard_error) == (None, None, None)
    assert even_bins(Sketch()) == []


@pytest.mark.parametrize("name", SAMPLES)
def test_even_bins_hold_every_value_and_none_holds_both_signs(name: str) -> None:
    bins = even_bins(sketch_of(SAMPLES[name]))

    assert sum(one.documents for one in bins) == len(SAMPLES[name])
    assert all(one.start * one.stop >= -1e-12 for one in bins)
    assert len(bins) <= 34


def test_equal_values_are_one_bin() -> None:
    assert even_bins(sketch_of([0.0] * 5)) == [Bin(0.0, 0.0, 5)]


def test_fixed_bins_count_a_border_with_the_values_below_it() -> None:
    bins = FixedBins((0.0, 0.1, 1.0))
    for value in (0.0, 0.05, 0.1, 0.100001, 1.0):
        bins.add(value)

    assert bins.bins() == [Bin(0.0, 0.0, 1), Bin(0.0, 0.1, 2), Bin(0.1, 1.0, 2)]


def test_the_largest_are_kept_in_order_and_of_equals_the_first() -> None:
    largest: Largest[str] = Largest(3)
    for value, name in ((1, "a"), (5, "b"), (2, "c"), (5, "d"), (2, "e")):
        largest.add(value, name)

    assert largest.items() == [(5, "b"), (5, "d"), (2, "c")]


def test_none_of_the_largest_may_be_asked_for() -> None:
    largest: Largest[str] = Largest(0)
    largest.add(1, "a")

    assert largest.items() == []
