"""Which bucket of a histogram a value is in, and what a bucket holds."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.buckets import LAST, PER_DOUBLING, BucketMeasure, bounds_of_bucket, bucket_of, bucket_of_mean

every_measure = pytest.mark.parametrize("measure", BucketMeasure)


@every_measure
def test_a_value_is_within_the_bounds_of_its_bucket_and_no_bucket_overlaps_the_next(measure: BucketMeasure) -> None:
    for bucket in range(LAST[measure] + 1):
        low, high = bounds_of_bucket(measure, bucket)

        assert bucket_of(measure, low * 1.0001) == bucket
        assert high == math.inf or bucket_of(measure, high * 0.9999) == bucket
        assert bucket == LAST[measure] or bounds_of_bucket(measure, bucket + 1)[0] == high


@given(st.integers(1, 10_000_000))
def test_a_length_is_in_the_bucket_of_its_bounds(length: int) -> None:
    low, high = bounds_of_bucket(BucketMeasure.LENGTH, bucket_of(BucketMeasure.LENGTH, length))

    assert low * (1 - 1e-12) <= length < high * (1 + 1e-12)


@every_measure
def test_a_power_of_two_begins_a_bucket(measure: BucketMeasure) -> None:
    for exponent in range(23):
        assert bucket_of(measure, 2**exponent) == PER_DOUBLING[measure] * exponent
        assert bounds_of_bucket(measure, PER_DOUBLING[measure] * exponent)[0] == 2**exponent


@given(st.floats(0.001, 20.0), st.integers(1, 1_000_000))
def test_the_bucket_of_a_mean_is_that_of_its_perplexity(mean: float, num_tokens: int) -> None:
    bucket = bucket_of_mean(mean * num_tokens, num_tokens)

    assert abs(bucket - bucket_of(BucketMeasure.PERPLEXITY, math.exp(mean))) <= (1 if _is_at_a_border(mean) else 0)


def _is_at_a_border(mean: float) -> bool:
    place = 8 * mean / math.log(2)
    return abs(place - round(place)) < 1e-9


def test_what_is_beyond_the_buckets_is_in_the_first_or_the_last() -> None:
    assert bucket_of(BucketMeasure.PERPLEXITY, math.inf) == bucket_of_mean(9e5, 1) == 255
    assert bucket_of(BucketMeasure.PERPLEXITY, 0.999) == bucket_of_mean(-1e-9, 3) == 0
    assert bucket_of(BucketMeasure.LENGTH, 10**9) == 95
    assert bounds_of_bucket(BucketMeasure.LENGTH, 95)[1] == math.inf
