"""A head in int8 that finds candidates, and float32 that chooses: the ids of float32 alone."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.tiny_models import OpenKV, build_kv, decode
from worker.engine.search.logit_rules import log_normalizer
from worker.engine.seq2seq.candidate_screening import CandidateScreen
from worker.graphs import marian
from worker.graphs.file_names import SCREENED
from worker.graphs.matrix_products import rounding

FAMILIES = ("tiny-swish-tied", "tiny-relu-tied", "tiny-swish-separate", "tiny-relu-separate")


def in_int8(hidden: Any, head: Any) -> tuple[Any, Any]:
    """What the int8 head says: logits (R, V), and what they are to be multiplied by (R,)."""
    scales = (np.maximum(np.abs(hidden).max(axis=1), 1e-20) / 127).astype(np.float32)  # (R,)
    largest = np.abs(head).max(axis=1)
    columns = np.where(largest > 0, largest / 127, 1).astype(np.float32)  # (V,)
    rows = np.rint(hidden / scales[:, None])
    return (rows @ np.rint(head / columns[:, None]).T * columns).astype(np.float32), scales


@settings(deadline=None, max_examples=150)
@example(seed=0, rows=3, width=8, size=20, twins=19, flat=True)
@given(
    seed=st.integers(0, 10_000),
    rows=st.integers(1, 9),
    width=st.sampled_from([8, 16, 64]),
    size=st.integers(2, 300),
    twins=st.integers(0, 20),
    flat=st.booleans(),
)
def test_the_best_id_is_that_of_float32(seed: int, rows: int, width: int, size: int, twins: int, flat: bool) -> None:
    """Also where many columns are alike, which int8 cannot tell apart, and where some ids are forbidden."""
    rng = np.random.default_rng(seed)
    head = rng.normal(size=(size, width)).astype(np.float32)
    alike = rng.integers(0, size, twins)
    head[alike] = head[rng.integers(0, size)] * (1 + 1e-4 * rng.normal(size=(twins, 1)))
    hidden = rng.normal(size=(rows, width)).astype(np.float32) * (1e-3 if flat else 3)
    forbidden = rng.integers(0, size, rng.integers(0, size // 2 + 1))
    logits, scales = in_int8(hidden, head)
    normalizer = log_normalizer(logits, scales)
    logits[:, forbidden] = -np.inf
    exact = hidden.astype(np.float64) @ head.T.astype(np.float64)  # (R, V)
    exact_normalizer = np.log(np.exp(exact).sum(axis=1))
    exact[:, forbidden] = -np.inf

    screen = CandidateScreen(head, *rounding(head))
    best, best_logits, better = screen.best(logits, scales, hidden, normalizer)

    chosen = exact[np.arange(rows), best]
    rounded = 1e-6 * np.linalg.norm(hidden, axis=1) * np.linalg.norm(head, axis=1).max()  # of float32 itself
    assert (chosen >= exact.max(axis=1) - rounded).all()
    np.testing.assert_allclose(best_logits, chosen, rtol=1e-5, atol=1e-5)
    assert (abs(better - exact_normalizer) <= screen._bound(hidden, scales) + 1e-4).all(), "no further off than a logit"


def test_of_equal_logits_the_lowest_id_is_taken() -> None:
    head = np.tile(np.array([[1.0, 2.0], [2.0, 1.0]], np.float32), (5, 1))
    hidden = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], np.float32)
    logits, scales = in_int8(hidden, head)

    best, *_ = CandidateScreen(head, *rounding(head)).best(logits, scales, hidden, log_normalizer(logits, scales))

    assert best.tolist() == [1, 0, 0]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_screened_head_gives_the_ids_of_the_whole_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, family: str
) -> None:
    """In every setting of greedy search, in any batch. What int8 loses of 16 numbers shows in the normalizer: with
    models as small as these, log-probabilities are off by up to 0.01 a token."""

    def zero(weights: dict[str, Any]) -> None:
        weights["final_logits_bias"] = np.zeros_like(weights["final_logits_bias"])

    plain, screened = tmp_path / "plain", tmp_path / "screened"
    for folder in (plain, screened):
        folder.mkdir()
    whole = build_kv(plain, family, change=zero)
    monkeypatch.setattr(marian, "LARGE_HEAD", 8)
    small = build_kv(screened, family, change=zero)
    assert (small.folder / SCREENED).exists()
    assert not (whole.folder / SCREENED).exists()
    sources = whole.draw_sources(30)
    for case in whole.cases:
        if case.settings["num_beams"] > 1:
            continue
        rules = whole.rules(**case.settings)
        wanted = decode(whole.model, sources, rules, rows=7)
        for rows in (1, 2, 7, 64):
            found = decode(small.model, sources, rules, rows=rows)
            for (one,), (other,) in zip(found, wanted, strict=True):
                assert (one.ids, one.truncated) == (other.ids, other.truncated)
                assert one.log_prob == pytest.approx(other.log_prob, abs=1e-2 * len(one.ids))


def test_a_row_that_is_not_finite_fails_alone(open_kv: OpenKV, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = open_kv("tiny-swish-separate")
    bad = 7

    def change(spoiled: bool) -> Any:
        def apply(weights: dict[str, Any]) -> None:
            weights["final_logits_bias"] = np.zeros_like(weights["final_logits_bias"])
            if spoiled:
                weights["model.encoder.embed_tokens.weight"][bad, 13] = np.nan

        return apply

    monkeypatch.setattr(marian, "LARGE_HEAD", 8)
    for name in ("sound", "broken"):
        (tmp_path / name).mkdir()
    sound, broken = (
        build_kv(tmp_path / name, "tiny-swish-separate", change=change(name == "broken"))
        for name in ("sound", "broken")
    )
    sources, rules = whole.draw_sources(60), whole.rules(num_beams=1)
    wanted = decode(sound.model, sources, rules, rows=7)

    found = decode(broken.model, sources, rules, rows=7)

    for source, some, others in zip(sources, found, wanted, strict=True):
        assert np.isnan(some[0].log_prob) if bad in source else some == others
