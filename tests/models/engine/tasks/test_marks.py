"""Documents with tags and placeholders, translated by the bundled model, and by two models."""

import dataclasses
from types import SimpleNamespace

import pytest

from jobs.outcome import Failed, Flag, Translation
from jobs.routing.language_pair import LanguagePair
from jobs.tasks.translate import Placeholders, TranslateOptions
from jobs.text.markup import Markup
from tests.models.engine.tasks.texts import DictMemory, one, translate
from tools.demo.lexicon import DAYS
from worker.engine.runtime.first_readings import FirstReadings
from worker.engine.runtime.run_context import RunContext
from worker.engine.tasks.pivoting import PivotLeg, translate_via
from worker.engine.tasks.translation import Translator

PLAIN = "Heavy rain will turn to snow in Ashford on Friday."
MARKED = "Heavy <b>rain</b> will turn to snow in <i>Ashford</i> on <x/>Friday."
GREEDY = TranslateOptions(beam_size=1)
MARKS = dataclasses.replace(GREEDY, markup=Markup.HTML, placeholders=Placeholders.AUTO)


@pytest.fixture
def demo_translator(demo: SimpleNamespace) -> Translator:
    return Translator(demo.model, demo.tokenizer)


def test_marks_are_in_the_translation_that_the_sentence_has_without_them(demo_translator: Translator) -> None:
    plain, marked = one(translate(demo_translator, [PLAIN], GREEDY)), one(translate(demo_translator, [MARKED], MARKS))

    found = marked.text
    for mark in ("<b>", "</b>", "<i>", "</i>", "<x/>"):
        assert found.count(mark) == 1
        found = found.replace(mark, "")
    assert found == plain.text


def test_the_memory_holds_sentences_without_marks(demo_translator: Translator) -> None:
    memory = DictMemory()
    for text, options in ((PLAIN, GREEDY), (MARKED, MARKS)):
        answers = demo_translator.translate([text], options, RunContext(memory=memory))
        memory.update(answers.learned)

    (outcome,) = answers.outcomes
    assert isinstance(outcome, Translation)
    assert outcome.num_reused == 1


def test_a_placeholder_is_where_the_model_writes_what_it_stands_for(demo_translator: Translator) -> None:
    plain = one(translate(demo_translator, [PLAIN], GREEDY)).text
    marked = one(translate(demo_translator, [PLAIN.replace("Ashford", "{town}")], MARKS))

    assert plain.count("阿什福德") == 1
    assert marked.text == plain.replace("阿什福德", "{town}")
    assert marked.flags == ()


def test_a_day_stands_in_for_a_day(demo: SimpleNamespace, demo_translator: Translator) -> None:
    found = {
        pair.english: day
        for pair in demo.pairs
        for day in DAYS
        if pair.english.count(day[0]) == 1 and pair.chinese.count(day[1]) == 1
    }
    texts = [text.replace(day, "{day}") for text, (day, _written) in found.items()]

    plain, marked = (translate(demo_translator, some, MARKS).outcomes for some in (list(found), texts))

    right = [
        with_mark.text == without.text.replace(written, "{day}")
        for with_mark, without, (_day, written) in zip(marked, plain, found.values(), strict=True)
    ]
    assert len(right) >= 20
    assert sum(right) >= 0.95 * len(right)


def test_a_number_that_the_model_loses_is_tried_in_other_forms(demo_translator: Translator) -> None:
    text = "Winds of {n} km/h are expected; rain will begin at {n_hours} on Friday and end at 21:10."

    found = one(translate(demo_translator, [text], MARKS))

    assert found.text.count("{n}") == found.text.count("{n_hours}") == 1


def test_the_memory_has_one_sentence_whatever_its_placeholder_is_called(demo_translator: Translator) -> None:
    memory, asked = DictMemory(), [PLAIN.replace("Ashford", name) for name in ("{town}", "{city}")]
    for text in asked:
        answers = demo_translator.translate([text], MARKS, RunContext(memory=memory))
        memory.update(answers.learned)

    (outcome,) = answers.outcomes
    assert isinstance(outcome, Translation)
    assert (outcome.num_reused, outcome.text.count("{city}"), len(memory)) == (1, 1, 1)


def test_what_somebody_imported_comes_before_a_stand_in(demo_translator: Translator) -> None:
    pair, memory = LanguagePair("en", "zh"), DictMemory()
    memory.imported[pair] = {"Call now.": "现在打电话。"}

    found = one(translate(demo_translator, ["Call {user} now."], MARKS, memory=memory, languages=pair))

    assert found.text.replace("{user}", "") == "现在打电话。"
    assert Flag.IMPORTED in found.flags


def test_each_of_several_hypotheses_has_the_placeholder(demo_translator: Translator) -> None:
    options = dataclasses.replace(MARKS, beam_size=4, n_best=4)

    found = one(translate(demo_translator, [PLAIN.replace("Ashford", "{town}")], options))

    assert [alternative.text.count("{town}") for alternative in found.alternatives] == [1] * 4


def test_a_text_without_marks_is_translated_as_without_the_options(demo_translator: Translator) -> None:
    assert one(translate(demo_translator, [PLAIN], MARKS)) == one(translate(demo_translator, [PLAIN], GREEDY))


def test_marks_go_through_two_models(demo: SimpleNamespace) -> None:
    legs = [PivotLeg(name, Translator(demo.model, demo.tokenizer), MARKS, name.encode()) for name in ("one", "two")]

    (outcome,) = translate_via([MARKED], legs[0], legs[1], RunContext()).outcomes

    assert isinstance(outcome, Translation)
    assert outcome.via is not None
    for text in (outcome.text, outcome.via.text):
        assert all(text.count(mark) == 1 for mark in ("<b>", "</b>", "<i>", "</i>", "<x/>"))


def test_a_mark_without_an_alignment_is_flagged(demo_translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Translator, "align", lambda self, pairs, options, run: [None] * len(pairs))

    assert Flag.MARKUP_MOVED in one(translate(demo_translator, [MARKED], MARKS)).flags


def test_a_document_on_which_a_kept_pattern_does_not_end_fails_and_the_others_do_not(
    demo_translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.text.marks.finding._LIMIT_S", 0.05)
    options = dataclasses.replace(GREEDY, keep=("(?:a|aa)+x",))

    failed, found = translate(demo_translator, ["a" * 60 + "!", PLAIN], options).outcomes

    assert isinstance(failed, Failed)
    assert failed.code == "endless-pattern"
    assert options.keep[0] in failed.message
    assert isinstance(found, Translation)


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("what", [{}, {"alignments": True}])
def test_marks_are_where_a_second_reading_of_the_translation_puts_them(
    demo_translator: Translator, monkeypatch: pytest.MonkeyPatch, beams: int, what: dict[str, bool]
) -> None:
    run, texts = RunContext(), [MARKED, PLAIN, "Rain will <b>fall</b> in Upton.", "Wind of {n} knots."]
    options = dataclasses.replace(MARKS, beam_size=beams, **what)

    kept = demo_translator.translate(texts, options, run).outcomes

    monkeypatch.setattr(FirstReadings, "keep_attention", lambda *_: None)
    again = RunContext()
    assert demo_translator.translate(texts, options, again).outcomes == kept
    assert rows(again, "align") > rows(run, "align"), "without what was recorded they are read a second time"
    assert rows(again, "encode") == rows(run, "encode"), "and go through the encoder once"


def rows(run: RunContext, phase: str) -> int:
    return sum(timing.rows for timing in run.timings if timing.phase == phase)


def test_what_comes_from_the_memory_is_read_again_with_the_same_marks(demo_translator: Translator) -> None:
    first = demo_translator.translate([MARKED], MARKS, RunContext())
    memory = DictMemory()
    memory.update(first.learned)
    run = RunContext(memory=memory)

    found = demo_translator.translate([MARKED], MARKS, run)

    assert rows(run, "decode") == 0
    assert found.outcomes[0].text == first.outcomes[0].text
