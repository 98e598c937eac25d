"""The passes over the vocabulary, compared with one line of numpy each."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.engine.search.generation_config import GenerationConfig
from worker.engine.search.logit_rules import apply_rules, log_normalizer, top_k


def random_logits(seed: int, rows: int, vocab_size: int, distinct: int) -> Any:
    """Logits (rows, vocab_size) of `distinct` different values at most, so that there are many ties."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=distinct).astype(np.float32)
    return values[rng.integers(0, distinct, (rows, vocab_size))]


@given(
    seed=st.integers(0, 1_000),
    rows=st.integers(1, 4),
    vocab_size=st.sampled_from([17, 64, 900, 1_300, 4_096, 5_003]),
    k=st.integers(1, 12),
    distinct=st.sampled_from([30, 100_000]),
)
def test_the_k_best_equal_those_of_a_full_sort(seed: int, rows: int, vocab_size: int, k: int, distinct: int) -> None:
    scores = random_logits(seed, rows, vocab_size, distinct)
    scores[0, 1::2] = -np.inf

    values, ids = top_k(scores, k)

    assert (values == -np.sort(-scores, axis=1)[:, :k]).all()
    assert (np.take_along_axis(scores, ids, axis=1) == values).all()
    assert all(len(set(row)) == k for row in ids.tolist())


def test_equal_scores_are_ordered_by_id() -> None:
    scores = np.zeros((1, 5_000), np.float32)
    scores[0, [4_999, 70, 3]] = 1.0

    assert top_k(scores, 3)[1].tolist() == [[3, 70, 4_999]]


@given(st.integers(0, 1_000), st.sampled_from([1, 5, 4_097]), st.sampled_from([-1e4, -50.0, 0.0, 50.0, 1e4]))
def test_the_normalizer_is_the_logarithm_of_the_sum_of_exponentials(seed: int, vocab_size: int, shift: float) -> None:
    logits = random_logits(seed, 3, vocab_size, 100_000) + np.float32(shift)
    exact = logits.astype(np.float64)
    top = exact.max(axis=1)

    wanted = top + np.log(np.exp(exact - top[:, None]).sum(axis=1))
    assert log_normalizer(logits) == pytest.approx(wanted, rel=1e-5, abs=1e-4)


def test_the_normalizer_is_finite_for_sound_rows_only() -> None:
    logits = np.zeros((5, 100), np.float32)
    logits[1, 7] = np.nan
    logits[2, 7] = np.inf
    logits[3, 7] = -np.inf
    logits[4] = -np.inf
    rules = GenerationConfig(start_id=1, eos_id=0, max_new_tokens=5, suppressed_ids=(7,))
    tokens = np.ones((5, 1), np.int64)

    normalizer, _ = apply_rules(
        logits, None, tokens, np.ones(5, np.int64), rules, steps=np.zeros(5, np.int64), to_log_probs=False
    )

    assert np.isfinite(normalizer).tolist() == [True, False, False, True, False]
