"""`kvjobs worker`: work on whatever is submitted, until told to stop."""

import logging
import threading

import click

from jobs.cli.context import Context
from jobs.cli.terminal import say
from jobs.dispatch.orders import Orders
from jobs.process import available_cores
from worker.supervisor import stop_on_signals, supervise


@click.command()
@click.option(
    "--lanes", type=click.IntRange(min=1), help="Threads, each with its own KV buffers.  [default: one per core]"
)
@click.option("--drain", is_flag=True, help="End when no work is left.")
@click.pass_obj
def worker(context: Context, lanes: int | None, drain: bool) -> int:
    """Run a worker.

    It leases shards of whatever is submitted, keeps models warm, and ends on Ctrl-C or SIGTERM after the batch in
    hand. Any number of workers may run at once.
    """
    settings = Context({**context.flags, "lanes": lanes}, context.debug).settings
    logging.basicConfig(level=settings.log_level.upper(), format="%(asctime)s %(levelname)s %(message)s")
    stop = threading.Event()
    stop_on_signals(stop)
    say(f"Working with {settings.lanes or available_cores()} lanes; Ctrl-C stops after the batch in hand.")
    code = supervise(Orders(settings, drain), stop)
    if code == 0:
        say("No work is left." if drain and not stop.is_set() else "The worker has stopped.")
    return code
