"""Translation through a language in the middle: both texts are those that each model gives alone."""

import dataclasses
import hashlib
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from jobs.answers import Answers
from jobs.errors import SpecError, Stopped
from jobs.outcome import VIA, Failed, Flag, SegmentTranslation, Translation
from jobs.tasks.translate import TranslateOptions
from tests.models.engine.tasks.texts import GREEDY, TEXTS, DictMemory, WordTokenizer
from worker.engine.runtime.run_context import RunContext
from worker.engine.tasks.pivoting import PivotLeg, translate_via
from worker.engine.tasks.translation import Translator

# A word of the target, as the tokenizer of the tiny model writes it, is a sentence of the source for the other.
REPEATING = ["Alpha beta gamma. Delta epsilon.", "Delta epsilon.\nAlpha beta gamma. Alpha beta gamma."]


class Legs:
    """A tiny model into the demo's English, and the demo out of it, with one memory of both."""

    def __init__(self, tiny: Any, demo: SimpleNamespace) -> None:
        self.memory = DictMemory()
        self.tokenizer = WordTokenizer()
        self.translators = Translator(tiny.model, self.tokenizer), Translator(demo.model, demo.tokenizer)

    def translate(
        self,
        texts: Sequence[str],
        first: TranslateOptions = dataclasses.replace(GREEDY, max_new_tokens=6),  # noqa: B008 - frozen
        second: TranslateOptions = dataclasses.replace(GREEDY, max_new_tokens=12),  # noqa: B008 - frozen
        **how: Any,
    ) -> Answers:
        legs = [
            PivotLeg(name, translator, options, name.encode())
            for name, translator, options in zip(("one", "two"), self.translators, (first, second), strict=True)
        ]
        return translate_via(texts, legs[0], legs[1], RunContext(**{"memory": self.memory, **how}))

    def alone(self, number: int, sentence: str, **options: Any) -> SegmentTranslation:
        """A sentence as one model translates it, without a memory."""
        limit = {"max_new_tokens": (6, 12)[number]}
        translated = self.translators[number].translate(
            [sentence], dataclasses.replace(GREEDY, **{**limit, **options}), RunContext()
        )
        return next(iter(translated.learned.values()))


@pytest.fixture
def legs(tiny: Any, demo: SimpleNamespace) -> Legs:
    return Legs(tiny, demo)


def documents(result: Answers) -> list[Translation]:
    assert all(isinstance(one, Translation) for one in result.outcomes)
    return result.outcomes  # type: ignore[return-value]


def test_both_texts_are_what_each_model_makes_of_a_sentence_alone(legs: Legs) -> None:
    for text, document in zip(TEXTS, documents(legs.translate(TEXTS)), strict=True):
        assert document.via is not None
        assert len(document.segments) == len(document.via.segments)
        read = written = final = 0
        for aligned, (start, stop) in zip(document.segments, document.via.segments, strict=True):
            middle = legs.alone(0, text[aligned.source_start : aligned.source_stop])
            last = legs.alone(1, middle.texts[0])
            assert document.via.text[start:stop] == middle.texts[0]
            assert document.text[aligned.target_start : aligned.target_stop] == last.texts[0]
            read, written, final = (
                read + last.num_source_tokens,
                written + middle.num_target_tokens,
                final + last.num_target_tokens,
            )
            assert {*middle.flags, *last.flags} <= {*document.flags}
        assert (document.via.num_source_tokens, document.via.num_target_tokens) == (read, written)
        assert document.num_target_tokens == final


def test_log_probabilities_are_sums_over_each_model(legs: Legs) -> None:
    (document,) = documents(legs.translate(["Alpha beta gamma. Delta epsilon."]))
    middle = [legs.alone(0, sentence) for sentence in ("Alpha beta gamma.", "Delta epsilon.")]

    assert document.via is not None
    assert document.via.log_prob == pytest.approx(sum(one.log_prob for one in middle), abs=1e-4)
    last = sum(legs.alone(1, one.texts[0]).log_prob for one in middle)
    assert document.log_prob == pytest.approx(last, abs=1e-4)


def test_the_second_model_reads_the_best_and_keeps_the_n_best(legs: Legs) -> None:
    beams = TranslateOptions(beam_size=4, max_new_tokens=8)

    (document,) = documents(legs.translate(["Alpha beta gamma."], beams, dataclasses.replace(beams, n_best=3)))

    assert document.via is not None
    wanted = legs.alone(1, document.via.text, beam_size=4, n_best=3, max_new_tokens=8)
    assert document.via.text == legs.alone(0, "Alpha beta gamma.", beam_size=4, max_new_tokens=8).texts[0]
    assert [one.text for one in document.alternatives] == list(wanted.texts)


def test_a_text_without_letters_passes_through_both(legs: Legs) -> None:
    (document,) = documents(legs.translate(["42 - 17\n"]))

    assert document.via is not None
    assert document.text == document.via.text == "42 - 17\n"
    assert document.flags == (Flag.PASSED_THROUGH,)


def test_a_sentence_in_the_middle_without_a_letter_is_not_translated(legs: Legs, monkeypatch: Any) -> None:
    monkeypatch.setattr(legs.tokenizer, "decode", lambda _ids: "17 !")

    (document,) = documents(legs.translate(["Alpha beta gamma."]))

    assert document.via is not None
    assert document.text == document.via.text == "17 !"
    assert (document.num_target_tokens, document.via.num_source_tokens) == (0, 0)
    assert Flag.PASSED_THROUGH in document.flags


# Memory: each leg is a job of its model


def test_equal_sentences_go_through_each_model_once_and_the_memory_is_that_of_each_alone(legs: Legs) -> None:
    first = legs.translate(REPEATING)

    assert sorted(legs.tokenizer.seen) == ["Alpha beta gamma.", "Delta epsilon."]
    assert [one.num_reused for one in documents(first)] == [0, 3]
    middle = {text: legs.alone(0, text).texts[0] for text in ("Alpha beta gamma.", "Delta epsilon.")}
    keys = [b"one" + text.encode() for text in middle] + [b"two" + text.encode() for text in middle.values()]
    assert set(first.learned) == {hashlib.sha256(key).digest() for key in keys}

    legs.memory.update(first.learned)
    legs.tokenizer.seen.clear()
    again = legs.translate(REPEATING)

    assert legs.tokenizer.seen == []
    assert [dataclasses.replace(one, num_reused=0) for one in documents(again)] == [
        dataclasses.replace(one, num_reused=0) for one in documents(first)
    ]
    assert [one.num_reused for one in documents(again)] == [2, 3]
    assert again.learned == {}


def test_a_sentence_that_one_model_alone_has_translated_counts_as_computed(legs: Legs) -> None:
    learned = legs.translate(["Alpha beta gamma."]).learned
    of_first = hashlib.sha256(b"one" + b"Alpha beta gamma.").digest()
    assert of_first in learned

    for kept in ([of_first], learned.keys() - {of_first}):
        legs.memory.clear()
        legs.memory.update({key: learned[key] for key in kept})  # type: ignore[misc]  # translations, no scores
        assert documents(legs.translate(["Alpha beta gamma."]))[0].num_reused == 0


def test_without_reuse_every_occurrence_goes_through_both(legs: Legs) -> None:
    options = dataclasses.replace(GREEDY, reuse=False, max_new_tokens=6)

    result = legs.translate(REPEATING, options, options)

    assert len(legs.tokenizer.seen) == 5
    assert result.learned == {}
    rows = {one.phase: one.rows for one in result.timings if one.phase.startswith("tokenize")}
    assert rows == {"tokenize" + VIA: 5, "tokenize": 5}


# Timings, failures, stopping


def test_timings_say_which_model_they_are_of(legs: Legs) -> None:
    phases = {one.phase for one in legs.translate(["Alpha beta gamma."]).timings}

    assert phases == {
        "segment",
        *(name + leg for leg in ("", VIA) for name in ("tokenize", "encode", "decode", "detokenize")),
        *(phase for phase in ("prefill", "prefill" + VIA) if phase in phases),
    }


@pytest.mark.parametrize("number", [0, 1])
def test_a_document_fails_by_the_name_of_the_model_whose_numbers_are_not_finite(
    legs: Legs, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    translator = legs.translators[number]
    right = translator._to_text

    def broken(source: Any, hypotheses: Any) -> SegmentTranslation:
        return dataclasses.replace(right(source, hypotheses), log_prob=float("nan"))

    monkeypatch.setattr(translator, "_to_text", broken)
    result = legs.translate(["Alpha beta.", "42"])
    failed, passed = result.outcomes

    assert isinstance(failed, Failed)
    assert (failed.code, failed.message.split(" ")[0]) == ("non-finite", ("one's", "two's")[number])
    assert isinstance(passed, Translation)
    assert len(result.learned) == number, "what the first model has made is kept, and nothing that is not finite"


def test_an_option_that_the_second_model_refuses_is_refused_before_the_first_has_worked(legs: Legs) -> None:
    with pytest.raises(SpecError, match="single target language"):
        legs.translate(TEXTS, GREEDY, dataclasses.replace(GREEDY, target_language="deu"))
    assert legs.tokenizer.seen == []


def test_it_stops_in_either_model(legs: Legs) -> None:
    calls = 0

    def after(number: int) -> bool:
        nonlocal calls
        calls += 1
        return calls > number

    legs.translate(TEXTS, should_stop=lambda: after(10**9))
    for number in (0, calls - 1):
        calls = 0
        with pytest.raises(Stopped):
            legs.translate(TEXTS, memory=DictMemory(), should_stop=lambda number=number: after(number))
