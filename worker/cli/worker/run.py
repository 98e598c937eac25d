"""`kvjobs worker`: process jobs until told to stop."""

import contextlib
import threading

import click

from jobs.cli.context import Context
from jobs.cli.number_types import number_type
from jobs.cli.price_option import price_option
from jobs.cli.render.messages import messages_of_log
from jobs.dispatch.worker_arguments import EXIT_DRAINED, WorkerArguments, new_node
from jobs.number_ranges import Whole
from jobs.queues import Queues
from jobs.setting_values import MOST_LANES
from jobs.settings import hide_passwords
from jobs.text.formatting import counted


@click.group(invoke_without_command=True)
@click.option(
    "--lanes",
    metavar="N",
    type=number_type(Whole(1, MOST_LANES)),
    help="Threads, each with its own KV buffers.  [default: one per core that it may use, one for a GPU]",
)
@click.option("--queues", metavar="NAME,...", help="The queues to serve: cpu, gpu, model:NAME.  [default: by device]")
@click.option("--device", metavar="DEVICE", default="cpu", show_default=True, help="cpu, or cuda:0 for the first GPU.")
@click.option("--drain", is_flag=True, help="Stop when no work is left.")
@price_option
@click.pass_context
def worker(
    ctx: click.Context,
    lanes: int | None,
    queues: str | None,
    device: str,
    drain: bool,
    openai_price_per_million: str | None,
) -> int:
    """Process submitted jobs.

    A worker takes parts of the submitted jobs one after another and keeps their models loaded. It stops on Ctrl-C or
    SIGTERM after its current batch. Any number of workers can run at once, on any number of machines that reach the
    database; with a broker, they are told of new jobs.

    A worker on a CPU serves the queue cpu, one on a GPU the queues cpu and gpu. The queue model:NAME is every job of
    one model: `kvjobs worker --queues model:demo-lm`.
    """
    if ctx.invoked_subcommand:
        return 0
    # Loaded here: `worker ls` needs none of it.
    from worker.engine.runtime.device import check_device, lanes_of
    from worker.process.child_handle import Child
    from worker.process.connect import connect_with_retry
    from worker.process.work_log import log_to_stderr
    from worker.supervisor import stop_on_signals, supervise

    context: Context = ctx.obj
    settings = context.with_flags(
        lanes=lanes, queues=queues, openai_price_per_million=openai_price_per_million
    ).settings
    say = messages_of_log(settings.log_format)
    serves = Queues.parse(settings.queues, check_device(device))
    log_to_stderr(settings)
    uses_hints = bool(settings.broker) and not drain
    arguments = WorkerArguments(settings, drain, device, new_node() if uses_hints else None)
    stop, child = threading.Event(), Child(arguments)
    stop_on_signals(stop, child)
    database = connect_with_retry(settings, stop.wait)
    if database is None:
        return 0
    with contextlib.ExitStack() as stack:
        started = f"Worker started with {counted(lanes_of(device, settings.lanes), 'lane')} on {serves}"
        if uses_hints:
            from worker.fleet.hint_exchange import exchange_hints  # loads Celery

            started += f", woken by {hide_passwords(settings.broker)}"
            stack.enter_context(exchange_hints(arguments, database, child, stop, say))
        say(f"{started}; Ctrl-C stops it after the current batch.")
        code = supervise(arguments, database, child, stop)
        is_stopped = stop.is_set()
    if code == EXIT_DRAINED:
        return 0  # a service manager that restarts what failed leaves it
    if code == 0:
        say("No work is left." if drain and not is_stopped else "The worker has stopped.")
    return code
