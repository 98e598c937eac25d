"""`kvjobs bench` with its subcommands."""

import click

from worker.cli.bench.cache import cache
from worker.cli.bench.providers import providers


@click.group()
def bench() -> None:
    """Measure the speed of this machine."""


for command in (cache, providers):
    bench.add_command(command)
