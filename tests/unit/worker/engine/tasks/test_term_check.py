"""The flag `term-missing`: by segment, as a reader sees it, for the terms of the job's languages."""

from jobs.outcome import AlignedSegment, Failed, Flag, Translation
from jobs.routing.language_pair import LanguagePair
from jobs.tasks.translate import TranslateOptions
from jobs.terms.glossary import read_glossary, read_kept_terms
from jobs.text.markup import Markup
from worker.engine.tasks.term_check import with_term_flags

EN_DE = LanguagePair("en", "de")
RAIN = TranslateOptions(glossary=read_glossary("rain\tRegen"))


def flagged(
    source: str,
    target: str,
    options: TranslateOptions = RAIN,
    segments: tuple[AlignedSegment, ...] = (),
    languages: LanguagePair | None = EN_DE,
) -> bool:
    outcome = Translation(target, 0.0, 1, 0, 1, 1, flags=(Flag.REPETITION,), segments=segments)
    (checked,) = with_term_flags([source], [outcome], options, languages)
    assert isinstance(checked, Translation)
    assert Flag.REPETITION in checked.flags
    return Flag.TERM_MISSING in checked.flags


def test_a_translation_without_the_target_is_flagged() -> None:
    assert flagged("Rain.", "Schauer.")
    assert not flagged("Rain.", "Regen.")
    assert not flagged("Snow.", "Schnee.")


def test_each_segment_has_to_hold_its_own() -> None:
    segments = (AlignedSegment(0, 5, 0, 6), AlignedSegment(6, 11, 7, 13))

    assert flagged("Rain. Snow.", "Nass.. Regen.", segments=segments)
    assert not flagged("Rain. Snow.", "Regen. Nass..", segments=segments)


def test_tags_and_entities_within_a_term_do_not_hide_it() -> None:
    options = TranslateOptions(glossary=read_glossary("AT&T shop\tAT&T-Laden"), markup=Markup.HTML)

    assert flagged("The <b>AT&amp;T</b> shop.", "Der Laden.", options)
    assert not flagged("The <b>AT&amp;T</b> shop.", "Der AT<i>&amp;</i>T-Laden.", options)


def test_terms_of_other_languages_are_left_out() -> None:
    glossary = read_glossary("source\ttarget\ttarget_language\nrain\tRegen\tde\nrain\tpluie\tfr\nsnow\tx\t")
    options = TranslateOptions(glossary=glossary)

    assert not flagged("Rain.", "Regen.", options)
    assert flagged("Rain.", "Regen.", options, languages=LanguagePair("en", "fr"))
    assert not flagged("Rain.", "Regen.", options, languages=None)
    assert flagged("Snow.", "Schnee.", options, languages=None)


def test_terms_of_a_subset_hold_where_it_is_chosen_and_come_before_those_of_all() -> None:
    glossary = read_glossary("source\ttarget\tsubset\nrain\tRegen\t\nrain\tNiederschlag\tacme\nsnow\tSchnee\t")
    of_all, of_acme = (TranslateOptions(glossary=glossary, glossary_subset=subset) for subset in (None, "acme"))

    assert flagged("Rain.", "Niederschlag.", of_all)
    assert not flagged("Rain.", "Regen.", of_all)
    assert flagged("Rain.", "Regen.", of_acme)
    assert not flagged("Rain.", "Niederschlag.", of_acme)
    assert flagged("Snow.", "Firn.", of_acme)


def test_a_term_that_stays_comes_before_one_that_is_translated() -> None:
    options = TranslateOptions(no_translate=read_kept_terms("Rain"), glossary=read_glossary("rain\tRegen"))

    assert not flagged("Rain here.", "Rain hier.", options)
    assert flagged("Rain here.", "rain hier.", options)
    assert flagged("the rain here.", "Rain hier.", options)


def test_a_failed_document_stays_as_it_is() -> None:
    failed = Failed("x", "y")

    assert with_term_flags(["Rain."], [failed], RAIN, EN_DE) == [failed]
