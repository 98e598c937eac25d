"""`kvjobs models` with its subcommands."""

import click

from worker.cli.models.add import add
from worker.cli.models.inspect import inspect
from worker.cli.models.ls import ls
from worker.cli.models.verify import verify


@click.group()
def models() -> None:
    """List, add, inspect and verify models."""


for command in (ls, add, inspect, verify):
    models.add_command(command)
