"""How the tokens and texts of two models are compared."""

import math

import pytest

from worker.engine.search.hypothesis import Hypothesis
from worker.model_tools.verify import seq2seq
from worker.model_tools.verify.checks import Verdict
from worker.model_tools.verify.numpy_marian import NumpyMarian


@pytest.fixture(autouse=True)
def in_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seq2seq, "open_seq2seq_reference", NumpyMarian.open)


# --- counting
def said(*ids: int, log_prob: float = -1.0) -> Hypothesis:
    return Hypothesis(ids, log_prob, log_prob, truncated=False)


def test_tokens_count_by_place_and_what_one_has_more_counts_as_different():
    check = seq2seq._compare("slots", "x", [said(5, 6, 0), said(7, 0)], [said(5, 6, 0), said(7, 8, 9, 0)])

    assert (check.exact, check.tokens) == (0.5, 4 / 7)
    assert check.verdict is Verdict.DIFFERS


def test_texts_are_compared_where_nothing_has_to_be_equal():
    check = seq2seq._compare("model", "x", [said(1, 0)], [said(2, 0)], decode_text=str)

    assert check.verdict is Verdict.MEASURED
    assert seq2seq._compare("model", "x", [said(1, log_prob=math.nan)], [said(1)], decode_text=str).has_failed
