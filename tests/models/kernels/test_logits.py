"""The kernels of a search against numpy."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from worker.engine.search import beam_candidates, logit_rules
from worker.engine.search.beam_candidates import best_continuations
from worker.engine.search.logit_rules import log_normalizer
from worker.kernels.functions import Kernels

QUICK = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@QUICK
@given(seed=st.integers(0, 2**32 - 1), rows=st.integers(1, 4), size=st.integers(1, 400), has_factors=st.booleans())
def test_sums_of_powers_are_those_of_float64(
    kernels: Kernels, seed: int, rows: int, size: int, has_factors: bool
) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(scale=8, size=(rows, size)).astype(np.float32)
    factors = rng.uniform(0.1, 1, rows).astype(np.float32) if has_factors else None
    exact = x.astype(np.float64) * (1 if factors is None else factors[:, None].astype(np.float64))

    np.testing.assert_allclose(kernels.sum_powers(x, factors), np.exp(exact).sum(axis=1), rtol=2e-5)


@pytest.mark.parametrize("row", [
    [np.nan, 1, 2], [np.inf, 1, 2], [-np.inf, -np.inf, -np.inf], [-np.inf, 1, 2], [200, 1, -200], [-300, -301, -302],
])  # fmt: skip
def test_a_normalizer_is_that_of_numpy_at_the_ends_of_the_range(
    kernels: Kernels, row: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    logits = np.array([row, [0, 1, 2]], np.float32)
    found = log_normalizer(logits)
    monkeypatch.setattr(logit_rules, "compiled_kernels", lambda: None)

    np.testing.assert_allclose(found, log_normalizer(logits), rtol=1e-6)


@QUICK
@given(
    seed=st.integers(0, 2**32 - 1), sentences=st.integers(1, 4), width=st.integers(1, 5), size=st.integers(80, 500),
    count=st.integers(2, 12), has_scales=st.booleans(), distinct=st.booleans(),
)  # fmt: skip
def test_the_best_continuations_are_those_of_sorting(
    kernels: Kernels, seed: int, sentences: int, width: int, size: int, count: int, has_scales: bool, distinct: bool
) -> None:
    """Also where scores are equal, which sorting decides."""
    rng = np.random.default_rng(seed)
    shape = sentences * width, size
    logits = (rng.normal(size=shape) if distinct else rng.integers(0, 12, shape)).astype(np.float32)
    scales = rng.uniform(0.5, 2, shape[0]).astype(np.float32) if has_scales else None
    normalizer = rng.normal(size=shape[0]).astype(np.float32)
    before = rng.normal(size=(sentences, width)).astype(np.float32)
    if not distinct:  # scores of several rows are equal, too: then the order of the beams decides
        normalizer, before = np.rint(normalizer), np.rint(before)
    order = np.stack([rng.permutation(width) for _ in range(sentences)])

    found = best_continuations(logits, scales, normalizer, before, order, count)
    wanted = beam_candidates._from_all(logits, scales, normalizer, before, order, count)

    np.testing.assert_array_equal(found.scores, wanted.scores)
    np.testing.assert_array_equal(found.rows, wanted.rows)
    np.testing.assert_array_equal(found.ids, wanted.ids)
