"""The options of `kvjobs submit` that name several models, and the routes that they ask for."""

from typing import TYPE_CHECKING

from jobs.cli.submit_options import SubmitOptions
from jobs.cli.task_options import is_given
from jobs.routing.plan import PivotRequest, PlannedRoute

if TYPE_CHECKING:
    from jobs.settings import Settings


def planned_routes(options: SubmitOptions, settings: "Settings") -> tuple[PlannedRoute, ...]:
    """The routes of this call; none: one model translates. Raises SpecError where a model is not named and not in the
    table of the settings."""
    values = options.of_task
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
