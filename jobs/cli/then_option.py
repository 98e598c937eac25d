"""`--then "TASK OPTIONS"`: a stage of a chain as text, with the options that `kvjobs submit` has for its task."""

import shlex
from collections.abc import Mapping
from typing import Any

import click

from jobs.cli.choice import SuggestingChoice
from jobs.cli.task_options import click_option, given_values, task_options
from jobs.errors import SpecError
from jobs.operations.stages import FIELDS, WRITTEN, shown_stage, stage_task
from jobs.stage import FILTER
from jobs.submission.job_options import OF_EVERY_JOB
from jobs.tasks.kinds import every_option


def stage_values(text: str) -> str | Mapping[str, Any]:
    """A stage as an object, from its text; a filter as it is. Raises SpecError for a text that is no stage."""
    word, _, rest = text.strip().partition(" ")
    if word == FILTER:
        return text
    try:
        return {"task": stage_task(word).value, WRITTEN: text, **_given(word, rest)}
    except click.ClickException as error:
        raise SpecError(f"--then {shown_stage(text)}: {error.format_message()}") from None
    except SpecError as error:
        raise SpecError(f"--then {shown_stage(text)}: {error}") from None


def _given(word: str, rest: str) -> dict[str, Any]:
    try:
        words = shlex.split(rest)
    except ValueError as error:
        raise SpecError(f"its quotes do not match ({str(error).lower()}); close them") from None
    with _COMMAND.make_context(word, words) as context:
        return given_values(context.params)


@click.command(add_help_option=False)
@click_option(OF_EVERY_JOB["model"])
@click_option(OF_EVERY_JOB["providers"])
@click_option(OF_EVERY_JOB["no_fallback"])
@click_option(every_option()["timing"])
@click.option("--field", type=SuggestingChoice(FIELDS))
@task_options
def _COMMAND(**_values: Any) -> None:
    """A click command that only parses the options of a stage; its body is never called."""
