"""What bench.drift says of two models: changes of log-probabilities, of greedy texts, of scores and orders."""

import numpy as np
import pytest

from bench.harness.text_drift import Read, text_drift


def test_a_drift_has_the_mean_and_the_worst_change_of_a_token_and_the_equal_texts() -> None:
    exact = Read(np.log([0.5, 0.5, 0.25, 0.25]), [(1, 2), (3,), (4,)])
    other = Read(np.log([0.25, 0.5, 0.25, 0.25]), [(1, 2), (5,), (4,)])

    found = text_drift(other, exact)

    assert found.perplexity == pytest.approx(2 ** (7 / 4))
    assert found.change == pytest.approx(100 * (2**0.25 - 1))
    assert found.standard_error == pytest.approx(100 * np.std([np.log(2), 0, 0, 0]) / 2)
    assert found.mean == pytest.approx(np.log(2) / 4)
    assert found.worst == pytest.approx(np.log(2))
    assert (found.equal, found.texts) == (2, 3)
