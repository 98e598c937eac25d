"""The plurals of each language against Unicode's CLDR, as Babel has it."""

import gettext

import pytest
from babel import Locale, localedata

from jobs.files.gettext.plural_rules import parsed
from jobs.files.plural_table import CATEGORIES, plurals_of

# Without whole millions, which are `many` in Spanish and French.
NUMBERS = [*range(1200), 10_000, 21_000, 40_000, 60_000, 100_000, 140_000, 1_100_000, 1_000_001]
LANGUAGES = sorted(
    name for name in localedata.locale_identifiers() if "_" not in name and Locale.parse(name).plural_form.tags
)
OF_GETTEXT = {"pt", "vi"}  # whose rules are gettext's own, as those of languages that CLDR lacks


def _expression(language: str):
    return gettext.c2py(plurals_of(language).rule.partition("plural=")[2].rstrip(";"))


def test_the_languages_are_those_of_cldr():
    assert len(LANGUAGES) > 150


@pytest.mark.parametrize("language", LANGUAGES)
def test_categories_and_rules_are_those_of_cldr(language):
    plurals, cldr = plurals_of(language), Locale.parse(language).plural_form
    assert plurals.categories == tuple(each for each in CATEGORIES if each in {*cldr.tags, "other"})
    if language in OF_GETTEXT:
        return
    rule = _expression(language)
    of_form = {rule(number): cldr(number) for number in NUMBERS}
    assert [(number, cldr(number)) for number in NUMBERS if of_form[rule(number)] != cldr(number)] == []
    in_order = [of_form[form] for form in sorted(of_form)]
    assert in_order == [each for each in CATEGORIES if each in of_form.values()]
    assert parsed(plurals.rule).num_forms == len(of_form) + (language == "br")  # whose `many` is that of millions


def test_languages_without_plurals_have_one_form():
    for language in ("id", "ja", "ko", "ms", "my", "th", "zh", "zh-Hant", "yue"):
        assert plurals_of(language).categories == ("other",)
        assert {_expression(language)(number) for number in NUMBERS} == {0}
        assert {Locale.parse(language.partition("-")[0]).plural_form(number) for number in NUMBERS} == {"other"}


def test_portuguese_is_of_portugal_unless_it_says_brazil():
    of_brazil, of_portugal = Locale.parse("pt_BR").plural_form, Locale.parse("pt_PT").plural_form
    for number in NUMBERS:
        assert _expression("pt-BR")(number) == ("one", "other").index(of_brazil(number))
        assert _expression("pt")(number) == ("one", "other").index(of_portugal(number))
