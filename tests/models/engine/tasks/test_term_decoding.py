"""Sentences that lack terms of a glossary, translated once more by the bundled model."""

import dataclasses
import math
from types import SimpleNamespace
from typing import Any

import pytest

from jobs.errors import Stopped
from jobs.outcome import Flag, SegmentTranslation, Translation
from jobs.routing.language_pair import LanguagePair
from jobs.tasks.translate import Placeholders, Segmentation, TranslateOptions
from jobs.terms.glossary import read_glossary, read_kept_terms
from jobs.text.markup import Markup
from tests.models.engine.tasks.texts import DictMemory
from tools.demo.lexicon import PLACES
from worker.engine.runtime.run_context import RunContext
from worker.engine.tasks.pivoting import PivotLeg, translate_via
from worker.engine.tasks.term_check import with_term_flags
from worker.engine.tasks.translation import Translator

EN_ZH = LanguagePair("en", "zh")
RAIN, SNOW = "Rain will fall in Ashford on Monday.", "Snow is falling in Kelso."
PLAIN = TranslateOptions(beam_size=1)
WITH_TERM = dataclasses.replace(PLAIN, glossary=read_glossary("rain\t大雨"))


@pytest.fixture(scope="module")
def translator(demo: SimpleNamespace) -> Translator:
    return Translator(demo.model, demo.tokenizer)


@pytest.fixture(scope="module")
def at_any_cost(demo: SimpleNamespace) -> Translator:
    return Translator(demo.model, demo.tokenizer, max_term_loss=math.inf)


def translate(translator: Translator, texts: list[str], options: TranslateOptions, **how: Any) -> list[Translation]:
    """The outcomes with the flags that a worker gives them."""
    run = RunContext(**{"languages": EN_ZH, **how})
    found = with_term_flags(texts, translator.translate(texts, options, run).outcomes, options, EN_ZH)
    assert all(isinstance(one, Translation) for one in found)
    return found  # type: ignore[return-value]


def test_a_sentence_that_lacks_a_term_gets_a_translation_that_has_it(translator: Translator) -> None:
    (plain,), (again,) = (translate(translator, [RAIN], options) for options in (PLAIN, WITH_TERM))

    assert "大雨" not in plain.text
    assert "大雨" in again.text
    assert Flag.TERM_MISSING not in again.flags
    assert again.log_prob is not None
    assert plain.log_prob is not None
    assert 0 < plain.log_prob / plain.num_target_tokens - again.log_prob / again.num_target_tokens < 0.75


def test_beyond_the_bound_the_translation_and_its_flag_stay(translator: Translator, at_any_cost: Translator) -> None:
    options = dataclasses.replace(PLAIN, glossary=read_glossary("snow\t有雪"))

    (plain,), (kept,), (forced,) = (
        translate(*how)
        for how in ((translator, [SNOW], PLAIN), (translator, [SNOW], options), (at_any_cost, [SNOW], options))
    )

    assert kept == dataclasses.replace(plain, flags=(Flag.TERM_MISSING,))
    assert "有雪" in forced.text
    assert not forced.flags


def test_a_term_that_the_vocabulary_lacks_keeps_its_flag_and_other_terms_are_met(at_any_cost: Translator) -> None:
    unknown = dataclasses.replace(PLAIN, glossary=read_glossary("rain\tЖ"))
    both = dataclasses.replace(PLAIN, glossary=read_glossary("Ashford\tЖ\nrain\t大雨"))

    (plain,), (kept,), (one_of_two,) = (translate(at_any_cost, [RAIN], each) for each in (PLAIN, unknown, both))

    assert kept == dataclasses.replace(plain, flags=(Flag.TERM_MISSING,))
    assert "大雨" in one_of_two.text
    assert one_of_two.flags == (Flag.TERM_MISSING,)


def test_no_other_term_is_lost(at_any_cost: Translator) -> None:
    """`Monday` is in the plain translation, and lost where `Ashford` alone is required."""
    sentence = "People in Westport should check road conditions on Monday."
    terms = {"Westport": "清水镇", "road conditions": "路况", "Monday": "周一"}
    options = dataclasses.replace(PLAIN, glossary=read_glossary(terms))

    (found,) = translate(at_any_cost, [sentence], options)

    assert not found.flags
    assert all(target in found.text for target in terms.values())


def test_texts_do_not_affect_each_other(translator: Translator, demo: SimpleNamespace) -> None:
    texts = [RAIN, *(pair.english for pair in demo.pairs[:12]), SNOW, RAIN]
    glossary = read_glossary("rain\t大雨\nSnow\t小雪\nwind\t大风\non\t的\nwill\t会")
    options = dataclasses.replace(WITH_TERM, glossary=glossary, reuse=False)

    together = translate(translator, texts, options)

    assert together == [translate(translator, [text], options)[0] for text in texts]
    assert any(found != plain for found, plain in zip(together, translate(translator, texts, PLAIN), strict=True))


def test_the_memory_holds_the_plain_translation_and_the_other_one_under_its_own_key(translator: Translator) -> None:
    memory = DictMemory()
    answers = translator.translate([RAIN], WITH_TERM, RunContext(languages=EN_ZH, memory=memory))
    memory.update({key: found for key, found in answers.learned.items() if isinstance(found, SegmentTranslation)})

    (plain,) = translate(translator, [RAIN], PLAIN, memory=memory)
    with_term = translator.translate([RAIN], WITH_TERM, RunContext(languages=EN_ZH, memory=memory))

    assert len(memory) == 2
    assert plain.num_reused == 1
    assert dataclasses.replace(plain, num_reused=0) == translate(translator, [RAIN], PLAIN)[0]
    assert not with_term.learned
    assert not any("decode" in timing.phase for timing in with_term.timings)
    assert dataclasses.replace(with_term.outcomes[0], num_reused=0) == answers.outcomes[0]


def test_that_nothing_was_taken_is_remembered_too(translator: Translator) -> None:
    memory, options = DictMemory(), dataclasses.replace(PLAIN, glossary=read_glossary("snow\t有雪"))
    answers = translator.translate([SNOW], options, RunContext(languages=EN_ZH, memory=memory))
    memory.update({key: found for key, found in answers.learned.items() if isinstance(found, SegmentTranslation)})

    again = translator.translate([SNOW], options, RunContext(languages=EN_ZH, memory=memory))

    assert not any("decode" in timing.phase for timing in again.timings)


def test_phases_say_what_was_translated_once_more(translator: Translator) -> None:
    answers = translator.translate([RAIN], WITH_TERM, RunContext(languages=EN_ZH))

    assert {"encode", "encode.terms", "decode", "decode.terms"} <= {timing.phase for timing in answers.timings}


def test_it_stops_while_it_decodes_once_more(translator: Translator) -> None:
    plain = translator.translate([RAIN], PLAIN, RunContext(languages=EN_ZH))
    left = sum(timing.phase == "decode" for timing in plain.timings) + 3

    def should_stop() -> bool:
        nonlocal left
        left -= 1
        return left < 0

    with pytest.raises(Stopped):
        translator.translate([RAIN], WITH_TERM, RunContext(languages=EN_ZH, should_stop=should_stop))


def test_n_best_are_those_with_the_term(translator: Translator) -> None:
    options = dataclasses.replace(WITH_TERM, beam_size=4, n_best=3)

    (found,) = translate(translator, [RAIN], options)

    assert found.text == found.alternatives[0].text
    assert all("大雨" in each.text for each in found.alternatives)


def test_n_best_are_as_many_as_the_beams_have_within_the_bound(demo: SimpleNamespace, at_any_cost: Translator) -> None:
    text = "Heavy rain will turn to snow in Ashford on Friday."
    options = dataclasses.replace(PLAIN, glossary=read_glossary("snow\t阵雪"), beam_size=8, n_best=8)
    within_bound = Translator(demo.model, demo.tokenizer, max_term_loss=1.5)

    (bounded,), (found,) = (translate(each, [text], options) for each in (within_bound, at_any_cost))

    assert 1 < len(bounded.alternatives) < len(found.alternatives) == 8
    assert found.alternatives[: len(bounded.alternatives)] == bounded.alternatives


def test_the_longest_translation_is_chosen_among_those_with_the_term(translator: Translator) -> None:
    options = dataclasses.replace(WITH_TERM, beam_size=4, max_chars=5)

    (found,) = translate(translator, [RAIN], options)

    assert "大雨" in found.text
    assert found.flags == (Flag.TOO_LONG,)


def test_marks_are_placed_in_the_translation_with_the_term(translator: Translator) -> None:
    text = RAIN.replace("Monday", "<b>Monday</b>")
    options = dataclasses.replace(WITH_TERM, markup=Markup.HTML)

    (found,) = translate(translator, [text], options)

    assert "大雨" in found.text
    assert found.text.count("<b>") == found.text.count("</b>") == 1
    assert Flag.TERM_MISSING not in found.flags


def test_a_word_that_stands_in_for_a_placeholder_is_no_term(at_any_cost: Translator) -> None:
    assert at_any_cost.model.stand_ins
    text = RAIN.replace("Ashford", "{town}")
    places = read_glossary({english: "西部丘陵" for english, _ in PLACES} | {"rain": "大雨"})
    options = dataclasses.replace(PLAIN, placeholders=Placeholders.AUTO)

    (found,) = translate(at_any_cost, [text], dataclasses.replace(options, glossary=places))

    assert "{town}" in found.text
    assert "大雨" in found.text
    assert "西部丘陵" not in found.text


def test_a_prefix_stays_the_beginning(at_any_cost: Translator) -> None:
    prefix = "如果周一"

    answers = at_any_cost.translate([RAIN], WITH_TERM, RunContext(languages=EN_ZH), prefixes=[prefix])

    (found,) = answers.outcomes
    assert isinstance(found, Translation)
    assert found.text.startswith(prefix)
    assert "大雨" in found.text


def test_what_people_imported_and_what_is_drawn_stays(at_any_cost: Translator) -> None:
    memory = DictMemory()
    memory.imported[EN_ZH] = {RAIN: "周一会下"}
    drawn = dataclasses.replace(PLAIN, temperature=1.0, seed=1)

    (imported,) = translate(at_any_cost, [RAIN], WITH_TERM, memory=memory)
    without, with_term = (
        translate(at_any_cost, [SNOW], each)
        for each in (drawn, dataclasses.replace(drawn, glossary=read_glossary("snow\t有雪")))
    )

    assert imported.text == "周一会下"
    assert Flag.TERM_MISSING in imported.flags
    assert with_term[0].text == without[0].text


def test_a_term_that_stays_is_not_required(at_any_cost: Translator) -> None:
    options = dataclasses.replace(WITH_TERM, no_translate=read_kept_terms("Rain"))

    (found,) = translate(at_any_cost, [RAIN], options)

    assert "Rain" in found.text
    assert "大雨" not in found.text


def test_the_second_of_two_models_has_the_terms_of_the_source(demo: SimpleNamespace) -> None:
    """Chinese to Chinese is nonsense, but it is another model's reading; the term is one of the English source."""
    options = dataclasses.replace(WITH_TERM, segment=Segmentation.NONE)
    legs = [
        PivotLeg(name, Translator(demo.model, demo.tokenizer, max_term_loss=math.inf), options, name.encode(), pair)
        for name, pair in (("one", EN_ZH), ("two", LanguagePair("zh", "zh")))
    ]

    (found,) = translate_via([RAIN], legs[0], legs[1], RunContext()).outcomes

    assert isinstance(found, Translation)
    assert found.via is not None
    assert "大雨" not in found.via.text
    assert "大雨" in found.text
