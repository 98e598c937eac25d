"""`kvjobs worker pause` and `resume`: what a person asks of one worker. (`drain`: of several, in drain.py.)"""

import click

from jobs.cli.context import Context
from jobs.cli.number_types import number_type
from jobs.cli.render.messages import print_message
from jobs.cli.render.output import Output, output_options
from jobs.number_ranges import EVERY_ID

worker_argument = click.argument("worker_id", metavar="WORKER", type=number_type(EVERY_ID))


@click.command()
@worker_argument
@output_options()
@click.pass_obj
def pause(context: Context, output: Output, worker_id: int) -> None:
    """Let a worker take no work until it is resumed.

    It finishes its batches, gives its shards back to others, and keeps its models loaded. It learns this with its next
    heartbeat. WORKER is its number in `kvjobs worker ls`.
    """
    _request(context, output, worker_id, "pause")


@click.command()
@worker_argument
@output_options()
@click.pass_obj
def resume(context: Context, output: Output, worker_id: int) -> None:
    """Let a paused worker take work again."""
    _request(context, output, worker_id, "resume")


def _request(context: Context, output: Output, worker_id: int, action: str) -> None:
    from jobs.control.actions import WorkerAction, perform_on_worker, this_user, worker_message

    settings, asked = context.settings, WorkerAction(action)
    with context.database() as database:
        worker = perform_on_worker(database, worker_id, asked, this_user(), settings.lease_s)
    output.record(worker.as_row(), lambda: print_message(worker_message(worker, asked, settings.heartbeat_s)))
