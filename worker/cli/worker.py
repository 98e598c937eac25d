"""`kvjobs worker`: work on whatever is submitted, until told to stop; and see who does."""

import contextlib
import threading
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from jobs.cli.context import Context
from jobs.cli.render.messages import print_message
from jobs.cli.render.output import Column, Output, output_options
from jobs.dispatch.health import Health
from jobs.dispatch.health import ask as ask_here
from jobs.dispatch.worker_arguments import WorkerArguments, new_node
from jobs.formatting import count, counted, moment
from jobs.queues import Queues
from jobs.settings import hide_passwords

if TYPE_CHECKING:
    from jobs.store.report.worker_list import WorkerSummary

COLUMNS = (
    Column("worker_id", "WORKER", right=True),
    Column("state", "STATE"),
    Column("host", "HOST", rank=2),
    Column("pid", "PID", right=True, rank=5),
    Column("device", "DEVICE", rank=7),
    Column("queues", "QUEUES", rank=4),
    Column("lanes", "LANES", right=True, rank=6),
    Column("models", "WARM", lambda models: " ".join(models) or "-", rank=9),
    Column(
        "shards", "WORKS ON", lambda shards: " ".join(f"{s['job_id']}/{s['shard_id']}" for s in shards) or "-", rank=3
    ),
    Column("in_flight", "DOCUMENTS", count, right=True, rank=8),
    Column("heartbeat_at", "LAST HEARD", moment, rank=1),
)


@click.group(invoke_without_command=True)
@click.option(
    "--lanes",
    type=click.IntRange(min=1),
    help="Threads, each with its own KV buffers.  [default: one per core, one for a GPU]",
)
@click.option("--queues", metavar="NAME,...", help="What to serve: cpu, gpu, model:NAME.  [default: by the device]")
@click.option("--device", metavar="DEVICE", default="cpu", show_default=True, help="cpu, or cuda:0 for the first GPU.")
@click.option("--drain", is_flag=True, help="End when no work is left.")
@click.pass_context
def worker(ctx: click.Context, lanes: int | None, queues: str | None, device: str, drain: bool) -> int:
    """Run a worker.

    It leases shards of whatever is submitted, keeps models warm, and ends on Ctrl-C or SIGTERM after the batch in
    hand. Any number of workers may run at once, on any number of machines; with a broker, hints wake them.
    """
    if ctx.invoked_subcommand:
        return 0
    # Loaded here: `worker ls` needs none of it.
    from worker.engine.runtime.device import check_device, lanes_of
    from worker.process.child import Child
    from worker.process.connect import connect_with_retry
    from worker.process.stderr_log import log_to_stderr
    from worker.supervisor import stop_on_signals, supervise

    context: Context = ctx.obj
    settings = Context({**context.flags, "lanes": lanes, "queues": queues}, context.debug).settings
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
        told = f"Working with {counted(lanes_of(device, settings.lanes), 'lane')} on {serves}"
        if uses_hints:
            from worker.fleet.hint_exchange import exchange_hints  # loads Celery

            told += f", woken by {hide_passwords(settings.broker)}"
            stack.enter_context(exchange_hints(arguments, database, child, stop, print_message))
        print_message(f"{told}; Ctrl-C stops after the batch in hand.")
        code = supervise(arguments, database, child, stop)
        is_asked = stop.is_set()
    if code == 0:
        print_message("No work is left." if drain and not is_asked else "The worker has stopped.")
    return code


@worker.command()
@click.option("-a", "--all", "everything", is_flag=True, help="Those that have stopped, too.")
@output_options(csv=True, ids=True)
@click.pass_obj
def ls(context: Context, output: Output, everything: bool) -> None:
    """List the workers, newest first: what they have warm, and what they work on.

    A worker is busy, idle, stale (not heard of for as long as a lease lasts) or stopped.
    """
    from jobs.store.report.worker_list import WORKER_FIELDS, list_workers

    with context.database() as database, database.reading() as connection:
        members = list_workers(connection, context.settings.lease_s, everything=everything)
    if output.is_table and not members:
        print_message("There is no worker; start one with: kvjobs worker")
        return
    output.rows((member.as_row() for member in members), COLUMNS, WORKER_FIELDS)


@worker.command()
@click.option("--here", is_flag=True, help="Only workers of this machine: for a health check.")
@click.option(
    "--timeout",
    metavar="S",
    type=click.FloatRange(min=0),
    default=2.0,
    show_default=True,
    help="How long to wait for answers.",
)
@output_options()
@click.pass_obj
def ping(context: Context, output: Output, here: bool, timeout: float) -> int:
    """Ask the workers whether they live.

    A worker lives if its process is there (on this machine) and its heartbeat is not older than a lease lasts. With a
    broker, each is asked over it too. Exit code 1 if none lives.

    With --here the worker processes answer themselves, whatever the machine has to do: one that hangs or is stopped
    does not.
    """
    settings = context.settings
    rows = [_as_row(health) for health in ask_here(settings, timeout)] if here else []
    if not rows:  # none answers: what the database knows of them
        rows = _heard_of(context, timeout, here=here)
    living = [row for row in rows if row["lives"]]
    if output.is_table and not rows:
        print_message("There is no worker" + (" on this machine." if here else "."))
    else:
        output.rows(rows, PING_COLUMNS, ("worker_id", "host", "pid", "lives", "hint", "heartbeat_at"))
    return 0 if living else 1


def _as_row(health: Health) -> dict[str, Any]:
    heard_at = None if health.silent_s is None else datetime.now(UTC) - timedelta(seconds=health.silent_s)
    return {**asdict(health), "hint": None, "heartbeat_at": heard_at}


def _heard_of(context: Context, timeout: float, *, here: bool) -> list[dict[str, Any]]:
    from jobs.store.report.worker_list import list_workers

    with context.database() as database, database.reading() as connection:
        members = [m for m in list_workers(connection, context.settings.lease_s) if m.is_here or not here]
    answers = _ask(context, members, timeout) if context.settings.broker and not here else {}
    return [
        {**member.as_row(), "lives": member.is_alive, "hint": answers.get(member.node or "") if answers else None}
        for member in members
    ]


PING_COLUMNS = (
    Column("worker_id", "WORKER", right=True),
    Column("host", "HOST", rank=1),
    Column("pid", "PID", right=True, rank=3),
    Column("lives", "LIVES"),
    Column("hint", "ANSWERS BROKER", rank=4),
    Column("heartbeat_at", "LAST HEARD", moment, rank=2),
)


def _ask(context: Context, members: "list[WorkerSummary]", timeout: float) -> dict[str, bool]:
    """Which nodes answer over the broker."""
    from jobs.dispatch.broker import BrokerError, make_app, ping_nodes

    nodes = [member.node for member in members if member.node and member.is_alive]
    if not nodes:
        return {}
    try:
        found = ping_nodes(make_app(context.settings.broker), nodes, timeout)
    except BrokerError as error:
        print_message(str(error))
        return {}
    return {node: node in found for node in nodes}
