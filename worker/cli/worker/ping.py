"""`kvjobs worker ping`: whether the workers are alive."""

from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from jobs.cli.context import Context
from jobs.cli.number_types import number_type
from jobs.cli.render.messages import print_message
from jobs.cli.render.output import Column, Output, output_options
from jobs.dispatch.health import Health, ask
from jobs.number_ranges import SECONDS
from jobs.text.formatting import moment

if TYPE_CHECKING:
    from jobs.store.report.worker_list import WorkerSummary

COLUMNS = (
    Column("worker_id", "WORKER", right=True),
    Column("host", "HOST", rank=1),
    Column("pid", "PID", right=True, rank=3),
    Column("lives", "ALIVE"),
    Column("hint", "ANSWERS BROKER", rank=4),
    Column("heartbeat_at", "HEARTBEAT", moment, rank=2),
)


@click.command()
@click.option("--here", is_flag=True, help="Ask only the workers on this machine: for a health check.")
@click.option(
    "--timeout",
    metavar="S",
    type=number_type(SECONDS),
    default=2.0,
    show_default=True,
    help="Seconds to wait for answers.",
)
@output_options()
@click.pass_obj
def ping(context: Context, output: Output, here: bool, timeout: float) -> int:
    """Check whether the workers are alive.

    A worker is alive if its last heartbeat is not older than a lease, and, on this machine, if its process exists. With
    a broker, each worker is asked through the broker too. Exit code 1 if no worker is alive.

    With --here the worker processes answer directly, however busy the machine is; one that hangs or is stopped does
    not answer.
    """
    settings = context.settings
    rows = [_as_row(health) for health in ask(settings, timeout)] if here else []
    if not rows:  # no process answers: see what the database knows
        rows = _known_to_database(context, timeout, here=here)
    living = [row for row in rows if row["lives"]]
    if output.is_table and not rows:
        print_message("No worker is running" + (" on this machine." if here else "."))
    else:
        output.rows(rows, COLUMNS, ("worker_id", "host", "pid", "lives", "hint", "heartbeat_at"))
    return 0 if living else 1


def _as_row(health: Health) -> dict[str, Any]:
    heartbeat_at = None if health.silent_s is None else datetime.now(UTC) - timedelta(seconds=health.silent_s)
    return {**asdict(health), "hint": None, "heartbeat_at": heartbeat_at}


def _known_to_database(context: Context, timeout: float, *, here: bool) -> list[dict[str, Any]]:
    from jobs.store.report.worker_list import list_workers

    with context.database() as database, database.reading() as connection:
        workers = [w for w in list_workers(connection, context.settings.lease_s) if w.is_here or not here]
    answers = _ping_through_broker(context, workers, timeout) if context.settings.broker and not here else {}
    return [
        {**worker.as_row(), "lives": worker.is_alive, "hint": answers.get(worker.node or "") if answers else None}
        for worker in workers
    ]


def _ping_through_broker(context: Context, workers: "list[WorkerSummary]", timeout: float) -> dict[str, bool]:
    """Whether each node answered; empty if no node could be asked."""
    from jobs.dispatch.broker import BrokerError, make_app, ping_nodes

    nodes = [worker.node for worker in workers if worker.node and worker.is_alive]
    if not nodes:
        return {}
    try:
        found = ping_nodes(make_app(context.settings.broker), nodes, timeout)
    except BrokerError as error:
        print_message(str(error))
        return {}
    return {node: node in found for node in nodes}
