"""Weights in int8: rounded to the nearest step, or so that products change least."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.graphs.rounding import inverse_factor, round_by_moments, round_to_nearest, row_scales

SIZES = st.sampled_from([(3, 1), (5, 16), (40, 63), (8, 64), (8, 65), (20, 130)])  # N, K


def _normal(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@given(size=SIZES, seed=st.integers(0, 99))
def test_numbers_that_are_read_apart_are_rounded_to_the_nearest_step(size, seed):
    weight = _normal(seed, *size)
    scales = row_scales(weight)
    factor = inverse_factor(np.diag(1 + np.arange(size[1])))

    np.testing.assert_array_equal(round_by_moments(weight, scales, factor), round_to_nearest(weight, scales))


@given(size=SIZES, seed=st.integers(0, 99))
def test_the_factor_is_that_of_the_inverse(size, seed):
    rows = _normal(seed, 200, size[1])
    moments = rows.T @ rows
    damped = moments + 0.01 * moments.diagonal().mean() * np.eye(size[1])

    factor = inverse_factor(moments)

    assert (factor == np.triu(factor)).all()
    np.testing.assert_allclose(factor.T @ factor @ damped, np.eye(size[1]), atol=1e-3)


def test_products_of_correlated_rows_change_less():
    rows = _normal(1, 500, 96) @ (_normal(2, 96, 96) * np.exp(_normal(3, 96, 1)))
    weight = _normal(4, 50, 96)
    scales = row_scales(weight)

    nearest, carried = (
        np.square(rows @ (rounded * scales - weight.T)).mean()
        for rounded in (
            round_to_nearest(weight, scales).astype(np.float32),
            round_by_moments(weight, scales, inverse_factor(rows.T @ rows)).astype(np.float32),
        )
    )

    assert carried < 0.5 * nearest


def test_no_step_is_beyond_127():
    rows = _normal(1, 50, 64) @ (np.ones((64, 64), np.float32) + 0.01 * _normal(2, 64, 64))
    weight = _normal(3, 300, 64)

    rounded = round_by_moments(weight, row_scales(weight), inverse_factor(rows.T @ rows))

    assert np.abs(rounded.astype(int)).max() == 127


@pytest.mark.parametrize("moments", [np.zeros((4, 4)), np.full((4, 4), np.nan), np.full((4, 4), np.inf)])
def test_rows_of_zeros_or_of_no_numbers_give_no_factor(moments):
    assert inverse_factor(moments) is None
