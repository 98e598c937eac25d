"""Which two models a command line asks for."""

import pytest

from jobs.errors import SpecError
from jobs.routing.plan import PivotRequest, PlannedLeg, plan_by_language
from jobs.routing.table import parse_table

TABLE = parse_table('{"fr-en": "opus-mt-fr-en", "en-de": "opus-mt-en-de", "fr-it": ["opus-mt-fr-es", "opus-mt-es-it"]}')
NOTHING: dict[str, str | None] = dict.fromkeys(("model", "via", "via_model", "source", "target"))


@pytest.mark.parametrize(
    "asked",
    [
        {"model": "opus-mt-fr-en", "via_model": "opus-mt-en-de", "target": "de"},
        {"model": "opus-mt-fr-en", "via": "en", "target": "de"},
        {"source": "fr", "via": "en", "via_model": "opus-mt-en-de", "target": "de"},
        {"source": "fr", "via": "en", "target": "de"},
    ],
)
def test_a_model_is_named_or_in_the_table(asked: dict[str, str]) -> None:
    planned = PivotRequest(**{**NOTHING, **asked}).plan(TABLE)

    assert planned.via == "en"
    assert planned.legs == (
        PlannedLeg(model="opus-mt-fr-en", source="fr", target="en"),
        PlannedLeg(model="opus-mt-en-de", source="en", target="de"),
    )


def test_a_label_stays_as_it_is_written_and_is_found_in_the_table_however() -> None:
    asked = {"model": "mine", "via": "cmn_Hans", "target": "deu_Latn"}

    planned = PivotRequest(**{**NOTHING, **asked}).plan(parse_table('{"cmn-hans-deu_latn": "yours"}'))

    assert [(leg.model, leg.target) for leg in planned.legs] == [("mine", "cmn_Hans"), ("yours", "deu_Latn")]


def test_names_that_say_no_language_leave_it_open() -> None:
    planned = PivotRequest(**{**NOTHING, "model": "mine", "via_model": "yours"}).plan({})

    assert (planned.via, planned.legs[0].source, planned.legs[0].target) == (None, "en", None)


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"via_model": "b"}, "name the first with --model, or give --via LANGUAGE"),
        ({"via": "en"}, "give --source-language, and the table .* or name the model with --model"),
        ({"model": "a", "via": "en"}, "give --target-language, and the table .* with --via-model"),
        ({"via": "en", "source": "ru", "target": "de"}, 'has no ru-en; its pairs are en-de, .* Add "ru-en" = "MODEL"'),
        ({"via": "it", "source": "fr", "via_model": "b"}, "the route fr-it has two models itself"),
        ({"model": "x-fr-en", "via_model": "x-es-de"}, "the second model has to read what the first one writes"),
    ],
)
def test_what_is_missing_is_said_with_the_option_that_gives_it(asked: dict[str, str], sentence: str) -> None:
    with pytest.raises(SpecError, match=sentence):
        PivotRequest(**{**NOTHING, **asked}).plan(TABLE)


def test_an_empty_table_says_so() -> None:
    with pytest.raises(SpecError, match=r"no fr-en; .*empty"):
        PivotRequest(**{**NOTHING, "source": "fr", "via": "en", "target": "de"}).plan({})


def test_by_language_every_pair_that_ends_in_the_target_is_a_route() -> None:
    table = parse_table(
        '{"fr-de": ["opus-mt-fr-en", "opus-mt-en-de"], "es-de": "opus-mt-es-de", "es-de-at": "own", "fr-en": "x-fr-en"}'
    )

    fr, es = {one.language: one for one in plan_by_language(table, "de-AT")}["fr"], plan_by_language(table, "de")[0]

    assert (fr.via, [(leg.model, leg.source, leg.target) for leg in fr.legs]) == (
        "en",
        [("opus-mt-fr-en", "fr", "en"), ("opus-mt-en-de", "en", "de-AT")],
    )
    assert (es.language, es.legs) == ("es", (PlannedLeg(model="opus-mt-es-de", source="es", target="de"),))
    assert [one.legs[0].model for one in plan_by_language(table, "de-AT") if one.language == "es"] == ["own"]


@pytest.mark.parametrize(("target", "sentence"), [(None, "give --target-language"), ("it", "no pair that ends in it")])
def test_without_a_target_or_a_pair_there_is_nothing_to_route(target: str | None, sentence: str) -> None:
    with pytest.raises(SpecError, match=sentence):
        plan_by_language(parse_table('{"fr-de": "m"}'), target)
