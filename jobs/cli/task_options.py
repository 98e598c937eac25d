"""Declared options (`jobs.tasks.option`) as click has them, and the values that were given.

Knows: click, and how a declared option looks there. An option of another task is refused rather than ignored.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from jobs.cli.choice import SuggestingChoice
from jobs.cli.number_types import number_type
from jobs.cli.parsed_type import FileContent, Parsed
from jobs.tasks.kinds import Options, every_option, read_options
from jobs.tasks.option import EVERY, Option
from jobs.tasks.task import Task

Command = TypeVar("Command", bound=Callable[..., Any])


class GroupedCommand(click.Command):
    """A command whose help lists the options of each task under a heading."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {EVERY: []}
        for parameter in self.get_params(ctx):
            if isinstance(parameter, click.Option) and (record := parameter.get_help_record(ctx)):
                option = every_option().get(parameter.name or "")
                sections.setdefault(option.heading if option else EVERY, []).append(record)
        for heading, records in sections.items():
            with formatter.section(heading):
                formatter.write_dl(records)


def task_options(command: Command) -> Command:
    """Add the options of all tasks to a command, in the order of its help; not those that stand among its own."""
    for option in reversed([*every_option().values()]):
        if option.heading != EVERY:
            command = click_option(option)(command)
    return command


def click_option(option: Option) -> Callable[[Command], Command]:
    """The decorator that adds an option to a command."""
    flag, how, default = option.flag, dict[str, Any](), option.default
    if option.is_content and option.parse is not None:
        how = {"type": FileContent(option.parse)}
    elif option.parse is not None:
        how = {"type": Parsed(option.parse)}
    elif option.type is bool:
        flag, how = (f"{flag}/--no-{flag[2:]}", {}) if default else (flag, {"is_flag": True})
    elif option.type is tuple:
        how, default = {"multiple": True}, None
    elif option.numbers is not None:
        how = {"type": number_type(option.numbers)}
    elif option.choices:
        how = {"type": SuggestingChoice(option.choices)}
    elif option.is_file:
        how = {"type": click.Path()}
    if default is not None:
        how |= {"default": default if isinstance(default, bool | int | float) else str(default), "show_default": True}
    decorate: Callable[[Command], Command] = click.option(flag, metavar=option.metavar, help=option.help, **how)
    return decorate


def parse_task_options(task: Task, values: Mapping[str, Any]) -> Options:
    """The options of a task from the values of this call; raises SpecError for an option of another task."""
    return read_options(task, given_values(values))


def given_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Those values of this call that stand on the command line, even with their default."""
    source_of = click.get_current_context().get_parameter_source
    return {name: value for name, value in values.items() if source_of(name) is ParameterSource.COMMANDLINE}
