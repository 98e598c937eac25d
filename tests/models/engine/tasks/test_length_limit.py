"""Translations of at most so many characters, by the bundled model, and what of a text counts as a character."""

import dataclasses
from types import SimpleNamespace

import pytest

from jobs.outcome import Flag, Translation
from jobs.tasks.translate import TranslateOptions
from jobs.text.markup import Markup
from tests.models.engine.tasks.texts import DictMemory
from worker.engine.runtime.run_context import RunContext
from worker.engine.tasks.length_limit import visible_length
from worker.engine.tasks.pivoting import PivotLeg, translate_via
from worker.engine.tasks.translation import Translator

TEXT = "It will rain in Oxford on Monday. The wind is cold."
BEAMS = TranslateOptions(beam_size=6)
LIMITED = dataclasses.replace(BEAMS, max_chars=1)


@pytest.fixture
def demo_translator(demo: SimpleNamespace) -> Translator:
    return Translator(demo.model, demo.tokenizer)


def limited(
    translator: Translator, limit: int | None, text: str = TEXT, options: TranslateOptions = LIMITED
) -> Translation:
    (found,) = translator.translate([text], options, RunContext(), [limit]).outcomes
    assert isinstance(found, Translation)
    return found


def test_the_best_that_fits_is_chosen_with_its_own_figures(demo_translator: Translator) -> None:
    every = limited(demo_translator, None, options=dataclasses.replace(BEAMS, n_best=6)).alternatives
    best = every[0]
    (shorter, *_) = (each for each in every if len(each.text) < len(best.text))

    assert limited(demo_translator, len(best.text)) == limited(demo_translator, None)
    found = limited(demo_translator, len(best.text) - 1, options=dataclasses.replace(LIMITED, n_best=3))
    assert found.text == found.alternatives[0].text == shorter.text
    assert found.alternatives[0].score == pytest.approx(shorter.score)
    assert found.alternatives[1].text == best.text, "the others are the best of all"
    assert found.log_prob != limited(demo_translator, None).log_prob
    assert Flag.TOO_LONG not in found.flags
    assert "".join(found.text[part.target_start : part.target_stop] for part in found.segments) == found.text


def test_where_none_fits_the_shortest_is_flagged(demo_translator: Translator) -> None:
    found = limited(demo_translator, 1)

    assert Flag.TOO_LONG in found.flags
    assert len(found.text) <= min(
        len(each.text)
        for each in limited(demo_translator, None, options=dataclasses.replace(BEAMS, n_best=6)).alternatives
    )


def test_another_limit_finds_the_whole_beam_in_the_memory(demo_translator: Translator) -> None:
    memory = DictMemory()
    memory.update(demo_translator.translate([TEXT], LIMITED, RunContext(memory=memory), [None]).learned)

    answers = demo_translator.translate([TEXT], LIMITED, RunContext(memory=memory), [18])

    assert not answers.learned
    (found,) = answers.outcomes
    assert isinstance(found, Translation)
    assert dataclasses.replace(found, num_reused=0) == limited(demo_translator, 18)


def test_the_second_of_two_models_is_limited(demo: SimpleNamespace) -> None:
    legs = [
        PivotLeg(name, Translator(demo.model, demo.tokenizer), options, name.encode())
        for name, options in (("one", BEAMS), ("two", LIMITED))
    ]

    outcomes = [translate_via([TEXT], legs[0], legs[1], RunContext(), [limit]).outcomes[0] for limit in (None, 1)]

    free, tight = outcomes
    assert isinstance(free, Translation)
    assert isinstance(tight, Translation)
    assert tight.via is not None
    assert free.via is not None
    assert tight.via.text == free.via.text
    assert len(tight.text) < len(free.text)
    assert Flag.TOO_LONG in tight.flags


@pytest.mark.parametrize(
    ("text", "markup", "length"),
    [
        ("<b>a</b> &amp; {name}", Markup.NONE, 21),
        ("<b>a</b> &amp; {name}", Markup.HTML, 10),
        ("a&nbsp;b", Markup.HTML, 3),
        ("*a* [b](http://c.de)", Markup.MD, 3),
    ],
)
def test_what_a_reader_sees_counts(text: str, markup: Markup, length: int) -> None:
    assert visible_length(text, markup) == length
