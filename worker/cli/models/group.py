"""`kvjobs models` with its subcommands."""

import click

from worker.cli.models.add import add
from worker.cli.models.inspect import inspect
from worker.cli.models.ls import ls
from worker.cli.models.split import split
from worker.cli.models.verify import verify


@click.group()
def models() -> None:
    """List, add, inspect, verify and split models.

    Two small models are bundled. Others are added from the Hugging Face hub or from a folder, and lie in the folder
    that the setting models_dir names (kvjobs config).

    \b
    kvjobs models add Helsinki-NLP/opus-mt-en-de
    kvjobs models verify opus-mt-en-de
    """


for command in (ls, add, inspect, verify, split):
    models.add_command(command)
