"""Screening by an int8 head, with the choice made in float32, gives the same ids as float32 alone."""

from typing import Any

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from worker.engine.search.logit_rules import log_normalizer
from worker.engine.seq2seq.native.candidate_screening import CandidateScreen
from worker.graphs.rounding import rounding_error


def in_int8(hidden: Any, head: Any) -> tuple[Any, Any]:
    """The output of the int8 head: logits (R, V), and the factor of each row (R,)."""
    scales = (np.maximum(np.abs(hidden).max(axis=1), 1e-20) / 127).astype(np.float32)  # (R,)
    largest = np.abs(head).max(axis=1)
    columns = np.where(largest > 0, largest / 127, 1).astype(np.float32)  # (V,)
    rows = np.rint(hidden / scales[:, None])
    return (rows @ np.rint(head / columns[:, None]).T * columns).astype(np.float32), scales


def screened(head: Any, bias: Any = None) -> CandidateScreen:
    """The screen of a head, with its exact product in numpy."""
    return CandidateScreen(
        head, *rounding_error(head), lambda hidden: hidden @ head.T + (0 if bias is None else bias), bias
    )


@example(seed=0, rows=3, width=8, size=20, similar=19, flat=True, spread=0, outlier=1, renormalize=False)
@example(seed=1, rows=9, width=64, size=300, similar=0, flat=False, spread=0.1, outlier=300, renormalize=True)
@example(seed=1745, rows=4, width=64, size=27, similar=0, flat=False, spread=0, outlier=300, renormalize=False)
@given(
    seed=st.integers(0, 10_000),
    rows=st.integers(1, 9),
    width=st.sampled_from([8, 16, 64]),
    size=st.integers(2, 300),
    similar=st.integers(0, 20),
    flat=st.booleans(),
    spread=st.sampled_from([0, 0.1, 10]),
    outlier=st.sampled_from([1, 30, 300]),
    renormalize=st.booleans(),
)
def test_the_best_id_is_that_of_float32(
    seed: int,
    rows: int,
    width: int,
    size: int,
    similar: int,
    flat: bool,
    spread: float,
    outlier: int,
    renormalize: bool,
) -> None:
    """Even if int8 cannot distinguish many nearly equal columns, if some ids are forbidden, and if a component of some
    hidden states is so large that all ids are candidates."""
    rng = np.random.default_rng(seed)
    head = rng.normal(size=(size, width)).astype(np.float32)
    alike = rng.integers(0, size, similar)
    head[alike] = head[rng.integers(0, size)] * (1 + 1e-4 * rng.normal(size=(similar, 1)))
    hidden = rng.normal(size=(rows, width)).astype(np.float32) * (1e-3 if flat else 3)
    hidden[::2, 0] *= outlier
    head[:, 0] /= outlier
    forbidden = rng.integers(0, size, rng.integers(0, size // 2 + 1))
    bias = rng.normal(size=size).astype(np.float32) * np.float32(spread) if spread else None
    screen = screened(head, bias)
    logits, scales = in_int8(hidden, head)
    screen.add_bias(logits, scales)
    normalizer = log_normalizer(logits, scales)
    logits[:, forbidden] = -np.inf
    if renormalize:
        normalizer = log_normalizer(logits, scales)
    exact = hidden.astype(np.float64) @ head.T.astype(np.float64)  # (R, V)
    if bias is not None:
        exact += bias
    allowed = exact.copy()
    allowed[:, forbidden] = -np.inf
    exact_normalizer = np.logaddexp.reduce(allowed if renormalize else exact, axis=1)

    best, best_logits, better = screen.best(logits, scales, hidden, normalizer, renormalize=renormalize)

    chosen = allowed[np.arange(rows), best]
    rounded = 1e-6 * np.linalg.norm(hidden, axis=1) * np.linalg.norm(head, axis=1).max() + 1e-6 * spread  # by float32
    assert (chosen >= allowed.max(axis=1) - rounded).all()
    np.testing.assert_allclose(best_logits, chosen, rtol=1e-5, atol=1e-5)
    assert (abs(better - exact_normalizer) <= screen._bound(hidden, scales) + 1e-4).all(), "the bound of a logit"


def test_of_equal_logits_the_lowest_id_is_taken() -> None:
    head = np.tile(np.array([[1.0, 2.0], [2.0, 1.0]], np.float32), (5, 1))
    hidden = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], np.float32)
    logits, scales = in_int8(hidden, head)

    best, *_ = screened(head).best(logits, scales, hidden, log_normalizer(logits, scales))

    assert best.tolist() == [1, 0, 0]


def test_a_row_alone_goes_through_the_whole_head_where_a_component_stands_out() -> None:
    rng = np.random.default_rng(0)
    head, hidden = (rng.normal(size=(size, 64)).astype(np.float32) for size in (4096, 3))
    head[:, 0] /= 1000
    hidden[1, 0] = 1000
    logits, scales = in_int8(hidden, head)
    given: list[Any] = []
    screen = CandidateScreen(head, *rounding_error(head), lambda rows: given.append(rows) or rows @ head.T)

    best, *_ = screen.best(logits, scales, hidden, log_normalizer(logits, scales))

    np.testing.assert_array_equal(np.concatenate(given), hidden[1:2])
    np.testing.assert_array_equal(best, (hidden @ head.T).argmax(axis=1))
