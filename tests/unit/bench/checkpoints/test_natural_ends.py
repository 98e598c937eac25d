"""The arithmetic of translations that end by themselves: positions are told apart."""

import numpy as np
import pytest

from bench.checkpoints.natural_ends import Reserved


@pytest.mark.parametrize("width", [128, 256, 512, 1024])
def test_the_encoding_of_a_position_is_like_its_own_alone(width):
    positions = np.arange(200)

    match = Reserved(width).match(positions[:, None], positions[None, :])

    assert np.diag(match) == pytest.approx(np.ones(200))
    assert match[~np.eye(200, dtype=bool)].max() < 0.82


@pytest.mark.parametrize("width", [128, 256, 512, 1024])
def test_no_dimension_of_the_residual_is_reserved_twice(width):
    at = Reserved(width)

    dimensions = np.concatenate((at.positions, at.zero, at.code, at.end, at.flag, at.one))

    assert len(set(dimensions.tolist())) == len(dimensions)
    assert dimensions.min() == 0
    assert dimensions.max() < width
