"""The options of `kvjobs submit` that name several models, and the routes that they ask for."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from jobs.cli.submit_options import SubmitOptions
from jobs.cli.task_options import is_given
from jobs.errors import SpecError
from jobs.routing.plan import AUTO, PivotRequest, PlannedRoute, plan_by_language
from jobs.tasks.translate import VIA, VIA_MODEL

if TYPE_CHECKING:
    from jobs.settings import Settings


def planned_routes(options: SubmitOptions, settings: "Settings") -> tuple[PlannedRoute, ...]:
    """The routes of this call; none: one model translates. Raises SpecError where a model is not named and not in the
    table of the settings."""
    values = options.of_task
    if options.model == AUTO:
        _refuse_beside_auto(values)
        return plan_by_language(settings.route_table, values["target_language"])
    if is_given("language_field"):
        raise SpecError(f"--language-field is for --model {AUTO}, which chooses models by it: leave it out")
    if values["via"] is None and values["via_model"] is None:
        return ()
    request = PivotRequest(
        model=options.model,
        via=values["via"],
        via_model=values["via_model"],
        source=values["source_language"] if is_given("source_language") else None,
        target=values["target_language"],
    )
    return (request.plan(settings.route_table),)


def _refuse_beside_auto(values: Mapping[str, Any]) -> None:
    for option in (VIA, VIA_MODEL):
        if values[option.name] is not None:
            raise SpecError(
                f"{option.flag} and --model {AUTO} exclude each other; a route of two models is a list in the table "
                '[routes]: "fr-de" = ["opus-mt-fr-en", "opus-mt-en-de"]'
            )
