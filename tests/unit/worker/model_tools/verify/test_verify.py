"""How the tokens and texts of two models are compared."""

import math

import pytest

from worker.engine.search.hypothesis import Hypothesis
from worker.model_tools.verify import seq2seq
from worker.model_tools.verify.checks import Verdict
from worker.model_tools.verify.numpy_seq2seq import NumpySeq2Seq


@pytest.fixture(autouse=True)
def in_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seq2seq, "open_seq2seq_reference", NumpySeq2Seq.open)


# --- counting
def hypothesis(*ids: int, log_prob: float = -1.0) -> Hypothesis:
    return Hypothesis(ids, log_prob, log_prob, truncated=False)


def test_tokens_are_compared_position_by_position_and_surplus_tokens_count_as_different():
    check = seq2seq._compare(
        "slots", "x", [hypothesis(5, 6, 0), hypothesis(7, 0)], [hypothesis(5, 6, 0), hypothesis(7, 8, 9, 0)]
    )

    assert (check.exact, check.tokens) == (0.5, 4 / 7)
    assert check.verdict is Verdict.DIFFERS


def test_texts_are_compared_if_tokens_need_not_be_equal():
    check = seq2seq._compare("model", "x", [hypothesis(1, 0)], [hypothesis(2, 0)], decode_text=str)

    assert check.verdict is Verdict.MEASURED
    assert seq2seq._compare(
        "model", "x", [hypothesis(1, log_prob=math.nan)], [hypothesis(1)], decode_text=str
    ).has_failed
