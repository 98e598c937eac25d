"""Routes in the specification of a job."""

import dataclasses
import json

import pytest

from jobs.errors import SpecError
from jobs.routing.routes import Leg, Route, has_pivot, models_in_words, revision_of
from jobs.spec import JobSpec
from jobs.tasks.task import Task
from jobs.tasks.translate import TranslateOptions

FIRST = Leg(model="opus-mt-fr-en", model_revision="1" * 64, source_language="fr")
SECOND = Leg(model="opus-mt-en-mul", model_revision="2" * 64, source_language="en", target_language="deu")
PIVOT = Route(legs=(FIRST, SECOND), via="en")


def spec_of(*routes: Route, **options: object) -> JobSpec:
    return JobSpec(
        task=Task.TRANSLATE,
        model="several",
        model_revision=revision_of(routes),
        options=TranslateOptions(routes=routes, **options),  # type: ignore[arg-type]
    )


def test_a_job_with_routes_is_restored_from_its_row() -> None:
    spec = spec_of(PIVOT, beam_size=4, n_best=2)

    restored = JobSpec.restore(
        task=spec.task, model=spec.model, model_revision=spec.model_revision, options_json=spec.options_json()
    )

    assert restored == spec
    assert has_pivot(json.loads(spec.options_json()))
    assert not has_pivot(json.loads(spec_of(Route(legs=(FIRST,))).options_json()))


def test_a_leg_has_the_memory_of_a_job_of_its_model_alone() -> None:
    """So a sentence that such a job has translated is not translated again, and the other way round."""
    first, second = spec_of(PIVOT, beam_size=4, n_best=2).legs
    alone = TranslateOptions(beam_size=4)

    for leg, options in (
        (first, dataclasses.replace(alone, source_language="fr")),
        (second, dataclasses.replace(alone, n_best=2, target_language="deu")),
    ):
        job = JobSpec(task=Task.TRANSLATE, model=leg.model, model_revision=leg.model_revision, options=options)
        assert leg == job
        assert leg.memory_digest() == job.memory_digest()


def test_other_models_are_another_job() -> None:
    other = Route(legs=(FIRST, dataclasses.replace(SECOND, model_revision="3" * 64)), via="en")

    assert spec_of(PIVOT).digest() == spec_of(PIVOT).digest() != spec_of(other).digest()


def test_options_without_routes_are_written_as_before_there_were_routes() -> None:
    plain = JobSpec(task=Task.TRANSLATE, model="m", model_revision="0" * 64, options=TranslateOptions())

    assert "routes" not in plain.options_json()
    assert plain.legs == plain.models == (plain,)


def test_a_model_that_stands_in_several_routes_is_one_model() -> None:
    routes = (dataclasses.replace(PIVOT, language="fr"), Route(legs=(SECOND,), language="en"))

    assert [one.model for one in spec_of(*routes).models] == ["opus-mt-fr-en", "opus-mt-en-mul"]
    assert models_in_words("auto", "0" * 64, json.loads(spec_of(*routes).options_json())) == (
        "fr: opus-mt-fr-en (revision 111111111111), then opus-mt-en-mul (revision 222222222222) (via en); "
        "en: opus-mt-en-mul (revision 222222222222)"
    )


def test_routes_of_a_later_version_are_refused() -> None:
    options = json.loads(spec_of(PIVOT).options_json())
    options["routes"][0]["speed"] = "high"

    with pytest.raises(SpecError, match=r"newer kvjobs.*routes"):
        JobSpec.restore(task="translate", model="m", model_revision="0", options_json=json.dumps(options))
    with pytest.raises(SpecError, match=r"one model .*has 3"):
        Route(legs=(FIRST, SECOND, SECOND))


def test_documents_of_one_model_have_the_spec_of_a_job_of_that_model() -> None:
    routes = (dataclasses.replace(PIVOT, language="fr"), Route(legs=(FIRST,), language="es"))
    spec = spec_of(*routes, beam_size=4)

    direct, pivot = spec.on_route("es"), spec.on_route("fr")

    assert direct == spec_of(PIVOT, beam_size=4).legs[0]
    assert (pivot.model, pivot.legs) == ("opus-mt-fr-en+opus-mt-en-mul", spec_of(PIVOT, beam_size=4).legs)
    assert direct.on_route("es") is direct
