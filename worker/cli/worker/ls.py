"""`kvjobs worker ls`: the list of workers."""

import click

from jobs.cli.context import Context
from jobs.cli.render.messages import print_message
from jobs.cli.render.output import Column, Output, output_options
from jobs.text.formatting import count, moment

COLUMNS = (
    Column("worker_id", "WORKER", right=True),
    Column("state", "STATE"),
    Column("host", "HOST", rank=2),
    Column("started_pid", "PID", right=True, rank=5),
    Column("device", "DEVICE", rank=7),
    Column("queues", "QUEUES", rank=4),
    Column("lanes", "LANES", right=True, rank=6),
    Column("models", "MODELS", lambda models: " ".join(models) or "-", rank=9),
    Column(
        "shards", "JOB/SHARD", lambda shards: " ".join(f"{s['job_id']}/{s['shard_id']}" for s in shards) or "-", rank=3
    ),
    Column("in_flight", "DOCUMENTS", count, right=True, rank=8),
    Column("heartbeat_at", "HEARTBEAT", moment, rank=1),
)


@click.command()
@click.option("-a", "--all", "everything", is_flag=True, help="List the stopped workers too.")
@output_options(csv=True, ids=True)
@click.pass_obj
def ls(context: Context, output: Output, everything: bool) -> None:
    """List the workers, newest first.

    Shows the models that each has loaded and the shards that it is processing. A worker is busy, idle, paused,
    draining (`kvjobs worker pause` and `drain`), stale (no heartbeat for the length of a lease), stopped, or killed:
    its process ended without being asked to stop (kill -9, a lack of memory, a crash), and its shards went to others.

    PID is the process that was started; --json has the child that does the work, too (pid, and parent_pid).
    """
    from jobs.store.report.worker_list import WORKER_FIELDS, list_workers

    with context.database() as database, database.reading() as connection:
        workers = list_workers(connection, context.settings.lease_s, everything=everything)
    if output.is_table and not workers:
        print_message("No worker is running. To start one: kvjobs worker")
        return
    output.rows((worker.as_row() | {"started_pid": worker.started_pid} for worker in workers), COLUMNS, WORKER_FIELDS)
