"""The table of routes, as JSON and as a table of TOML; and how a pair is found in it."""

from typing import Any

import pytest

from jobs.errors import SpecError
from jobs.routing.table import TableRoute, find_route, parse_table, read_table

TABLE = {
    "fr-en": "opus-mt-fr-en",
    "fr-de": ["opus-mt-fr-en", "opus-mt-en-de"],
    "SW_KE-de": ["nllb", "eng_Latn", "nllb"],
    "pt-en": "opus-mt-roa-en",
}


def test_a_table_says_the_same_as_its_text() -> None:
    text = read_table(TABLE)

    assert read_table(text) == text
    assert parse_table(text) == {
        "fr-en": TableRoute(("opus-mt-fr-en",)),
        "fr-de": TableRoute(("opus-mt-fr-en", "opus-mt-en-de"), "en"),
        "sw-ke-de": TableRoute(("nllb", "nllb"), "eng_Latn"),
        "pt-en": TableRoute(("opus-mt-roa-en",)),
    }
    assert (read_table({}), read_table(" "), parse_table("")) == ("", "", {})


@pytest.mark.parametrize(
    ("source", "target", "model"),
    [
        ("fr", "en", "opus-mt-fr-en"),
        ("FR", "EN", "opus-mt-fr-en"),
        ("pt_BR", "en-GB", "opus-mt-roa-en"),
        ("sw-KE", "de", "nllb"),
        ("sw", "de", None),
        ("en", "fr", None),
    ],
)
def test_a_pair_is_found_by_its_own_languages_else_by_broader_ones(source: str, target: str, model: str | None) -> None:
    found = find_route(parse_table(read_table(TABLE)), source, target)

    assert (found and found.models[0]) == model


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ([1], "is not a table of pairs"),
        ({"fr": "m"}, "has the pair 'fr'; write SOURCE-TARGET"),
        ({"fr-en": ""}, "of 'fr-en' is ''; write the name of a model"),
        ({"fr-en": ["a", "b", "c", "d"]}, "of 'fr-en' is"),
        ({"fr-en": ["a", 3]}, "of 'fr-en' is"),
        ({"fr-en": "a", "FR_en": "b"}, "has the pair 'FR_en' twice"),
        ({"fr-de": ["opus-mt-fr-en", "opus-mt-es-de"]}, "opus-mt-fr-en translates into 'en', and opus-mt-es-de reads"),
    ],
)
def test_anything_else_is_refused(value: Any, sentence: str) -> None:
    with pytest.raises(SpecError, match=sentence):
        read_table(value)
