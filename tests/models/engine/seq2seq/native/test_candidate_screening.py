"""Screening by an int8 head, with the choice made in float32, gives the same ids as float32 alone."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.repetition import share
from tests.tiny_models import OpenKV, build_kv, decode
from worker.graphs.file_names import SCREENED
from worker.graphs.seq2seq import graphs as marian

FAMILIES = ("tiny-swish-tied", "tiny-relu-tied", "tiny-swish-separate", "tiny-relu-separate")


@pytest.mark.long
@pytest.mark.parametrize("family", FAMILIES)
def test_a_screened_head_gives_the_ids_of_the_full_head(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, family: str
) -> None:
    """In every setting of greedy search, with a bias and without, and in every batch size. What int8 loses of 16
    numbers is visible in the normalizer: with models this small, log-probabilities are off by up to 0.01 per token."""

    def set_bias(weights: dict[str, Any]) -> None:
        if family in FAMILIES[::2]:  # the others keep theirs
            weights["final_logits_bias"] = np.zeros_like(weights["final_logits_bias"])
        else:
            assert weights["final_logits_bias"].any()

    plain, screened = tmp_path / "plain", tmp_path / "screened"
    for folder in (plain, screened):
        folder.mkdir()
    whole = build_kv(plain, family, change=set_bias)
    monkeypatch.setattr(marian, "LARGE_HEAD", 8)
    small = build_kv(screened, family, change=set_bias)
    assert (small.folder / SCREENED).exists()
    assert not (whole.folder / SCREENED).exists()
    sources = whole.draw_sources(30)
    greedy = [case for case in whole.cases if case.settings["num_beams"] == 1]
    number = FAMILIES.index(family)
    for index, case in enumerate(share(greedy, number // 2, of=2), number):
        rules = whole.rules(**case.settings)
        wanted = decode(whole.model, sources, rules, rows=7)
        for rows in share((1, 2, 7, 64), index % 4, of=4):
            found = decode(small.model, sources, rules, rows=rows)
            for (hypothesis,), (expected,) in zip(found, wanted, strict=True):
                assert (hypothesis.ids, hypothesis.truncated) == (expected.ids, expected.truncated)
                assert hypothesis.log_prob == pytest.approx(expected.log_prob, abs=1e-2 * len(hypothesis.ids))


def test_a_row_with_non_finite_logits_fails_without_affecting_others(
    open_kv: OpenKV, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
