"""The plurals of each language against Unicode's CLDR: cldr_plurals.json, by `python -m tools.cldr_plurals`."""

import gettext
import json
from pathlib import Path

import pytest

from jobs.files.gettext.plural_rules import parsed
from jobs.files.plural_table import CATEGORIES, plurals_of

CLDR = json.loads((Path(__file__).parent / "cldr_plurals.json").read_text())
NUMBERS = CLDR["numbers"]
ONE, OTHER = (str(CATEGORIES.index(each)) for each in ("one", "other"))
GROUPS = {language: group for group in CLDR["groups"] for language in group["languages"].split()}
WITH_PLURALS = [name for name, group in GROUPS.items() if group["categories"] != "other" and "_" not in name]
OF_GETTEXT = {"pt", "vi"}  # whose rules are gettext's own, as those of languages that CLDR lacks


def forms_of(language: str) -> list[int]:
    rule = gettext.c2py(plurals_of(language).rule.partition("plural=")[2].rstrip(";"))
    return [rule(number) for number in NUMBERS]


def test_the_languages_are_those_of_cldr():
    assert len(WITH_PLURALS) > 150


@pytest.mark.parametrize("language", WITH_PLURALS)
def test_categories_and_rules_are_those_of_cldr(language):
    plurals, cldr = plurals_of(language), GROUPS[language]
    assert " ".join(plurals.categories) == cldr["categories"]
    if language in OF_GETTEXT:
        return
    of_form = dict(zip(forms_of(language), cldr["indices"], strict=True))
    assert "".join(of_form[form] for form in forms_of(language)) == cldr["indices"]
    assert [of_form[form] for form in sorted(of_form)] == sorted(of_form.values())
    # The numbers are without whole millions, for which Breton has a form.
    assert parsed(plurals.rule).num_forms == len(of_form) + (language == "br")


@pytest.mark.parametrize("language", ["id", "ja", "ko", "ms", "my", "th", "yue", "zh"])
def test_languages_without_plurals_have_one_form(language):
    assert plurals_of(language).categories == plurals_of(f"{language}-Xxxx").categories == ("other",)
    assert set(forms_of(language)) == {0}
    assert set(GROUPS[language]["indices"]) == {OTHER}


@pytest.mark.parametrize(("language", "of_cldr"), [("pt-BR", "pt_BR"), ("pt", "pt_PT")])
def test_portuguese_is_of_portugal_unless_it_says_brazil(language, of_cldr):
    assert [form == 0 for form in forms_of(language)] == [index == ONE for index in GROUPS[of_cldr]["indices"]]
