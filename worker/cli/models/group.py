"""`kvjobs models`: the models that there are, what is in them, and how others become one."""

import click

from worker.cli.models.add import add
from worker.cli.models.inspect import inspect
from worker.cli.models.ls import ls
from worker.cli.models.verify import verify


@click.group()
def models() -> None:
    """See the models that there are, and add others."""


for command in (ls, add, inspect, verify):
    models.add_command(command)
