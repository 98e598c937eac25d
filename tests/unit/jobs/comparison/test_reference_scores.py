"""chrF and BLEU of many documents in parts, against sacrebleu on all at once."""

import builtins
import random
from typing import Any

import pytest
import sacrebleu

from jobs.comparison import reference_scores
from jobs.comparison.reference_scores import ReferenceScores, tokenizer_for
from jobs.errors import SpecError

GENERATOR = random.Random(11)
WORDS = ["the", "rain", "falls", "on", "a", "hill", "near", "some", "old", "town"]
REFERENCES = [" ".join(GENERATOR.choices(WORDS, k=12)) for _ in range(250)]


def damaged(text: str, share: float) -> str:
    return " ".join("fog" if GENERATOR.random() < share else word for word in text.split())


A = [damaged(text, 0.3) for text in REFERENCES]
B = [damaged(text, 0.1) for text in REFERENCES]


def scores(**options: Any) -> dict[str, reference_scores.ReferenceScore]:
    collected = ReferenceScores(**options)
    for one in zip(A, B, REFERENCES, strict=True):
        collected.add(*one)
    return {one.measure: one for one in collected.result()}


def test_the_scores_of_parts_are_those_of_all_at_once() -> None:
    found = scores(with_test=False)

    assert found["chrF2"].a == pytest.approx(sacrebleu.CHRF().corpus_score(A, [REFERENCES]).score)
    assert found["BLEU"].b == pytest.approx(sacrebleu.BLEU().corpus_score(B, [REFERENCES]).score)
    assert "tok:13a" in found["BLEU"].signature
    assert (found["BLEU"].documents, found["BLEU"].p_value, found["BLEU"].tested) == (250, None, 0)


def test_a_clear_difference_is_significant_and_equal_jobs_differ_by_nothing() -> None:
    found = scores()
    assert all(one.difference > 5 and one.is_significant and one.tested == 250 for one in found.values())

    collected = ReferenceScores()
    for text, reference in zip(A, REFERENCES, strict=True):
        collected.add(text, text, reference)
    assert all(one.difference == 0 and not one.is_significant for one in collected.result())


def test_the_test_is_of_a_sample_where_there_are_more_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference_scores, "TESTED", 50)

    first, again = scores(), scores()
    assert first["chrF2"].tested == 50
    assert first == again  # a fixed seed


@pytest.mark.parametrize(
    ("text", "tokenizer"),
    [
        ("The rain falls.", "13a"),
        ("由于烟雾正笼罩阿登", "zh"),
        ("雨が降っています", "char"),
        ("ฝนตก", "char"),
        ("1.5", "13a"),
        ("비가 온다", "13a"),
    ],
)
def test_the_tokenizer_of_bleu_follows_the_script_of_the_references(text: str, tokenizer: str) -> None:
    assert tokenizer_for([text]) == tokenizer


def test_no_reference_at_all_is_refused() -> None:
    with pytest.raises(SpecError, match=r"no document .*reference"):
        ReferenceScores().result()


def test_a_missing_package_is_named_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "sacrebleu":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(SpecError, match=r"sacrebleu.*pip install"):
        ReferenceScores()
