"""Log-probabilities of target tokens, compared with the plain formula."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.engine.causal import target_log_probs as module
from worker.engine.causal.target_log_probs import scratch_size, target_log_probs


@given(
    rows=st.integers(0, 40),
    vocab_size=st.integers(1, 300),
    scale=st.sampled_from([0.0, 1.0, 30.0, 1e4]),
    seed=st.integers(0, 99),
)
def test_log_probs_are_the_logits_minus_the_log_sum_exp(rows: int, vocab_size: int, scale: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    logits = (scale * rng.standard_normal((rows, vocab_size))).astype(np.float32)
    targets = rng.integers(0, vocab_size, rows)

    found = target_log_probs(logits.copy(), targets)

    exact = logits.astype(np.float64) - logits.astype(np.float64).max(axis=1, keepdims=True)
    expected = exact[np.arange(rows), targets] - np.log(np.exp(exact).sum(axis=1))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=2e-7, atol=2e-6)


def test_float16_logits_are_summed_in_float32() -> None:
    """70,000 equal logits: a sum in float16 would be infinite, and its logarithm too."""
    found = target_log_probs(np.zeros((3, 70_000), np.float16), np.array([0, 1, 69_999]))

    np.testing.assert_allclose(found, -np.log(70_000), rtol=1e-6)


def test_slices_give_the_same_log_probs_as_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    logits = np.random.default_rng(1).standard_normal((50, 33)).astype(np.float32)
    targets = np.arange(50) % 33
    expected = target_log_probs(logits, targets)

    monkeypatch.setattr(module, "SLICE_FLOATS", 7 * 33)

    np.testing.assert_array_equal(target_log_probs(logits, targets, np.full(7 * 33, np.nan, np.float32)), expected)


def test_a_non_finite_logit_affects_only_its_own_row() -> None:
    logits = np.zeros((5, 4), np.float32)
    logits[0, 1] = np.nan
    logits[1, 1] = np.inf
    logits[2, 1] = -np.inf  # this id has probability zero; the others do not
    logits[3] = -np.inf

    found = target_log_probs(logits, np.array([0, 1, 1, 0, 3]), np.empty(scratch_size(4), np.float32))

    assert np.isnan(found[[0, 1, 3]]).all()
    assert found[2] == -np.inf
    assert found[4] == pytest.approx(-np.log(4))


def test_a_vocabulary_of_150_000_ids_loses_no_precision_in_float32() -> None:
    logits = (5 * np.random.default_rng(2).standard_normal((4, 151_936))).astype(np.float32)
    targets = np.array([0, 5, 77_777, 151_935])

    exact = logits.astype(np.float64)
    expected = exact[np.arange(4), targets] - np.log(np.exp(exact).sum(axis=1))
    np.testing.assert_allclose(target_log_probs(logits, targets), expected, rtol=0, atol=3e-6)
