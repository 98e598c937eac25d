"""`kvjobs worker drain`: ask workers to finish the shards in hand and to end, and wait for that."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from jobs.cli.context import Context
from jobs.cli.number_types import number_type
from jobs.cli.render.messages import print_message
from jobs.cli.render.output import Output, output_options
from jobs.errors import TransientError
from jobs.number_ranges import SECONDS
from jobs.text.formatting import counted, duration, visible

if TYPE_CHECKING:
    from jobs.control.worker_drain import Draining
    from jobs.store.database import Database
    from jobs.store.report.worker_list import WorkerSummary

TIMED_OUT = 4
LOOK_EVERY_S = 1.0
PATIENCE_S = 120.0  # how long to wait for a database that does not answer
MOST_NAMED = 10  # workers in one sentence


@click.command()
@click.argument("targets", metavar="[WORKER|HOST]...", nargs=-1)
@click.option("--all", "everyone", is_flag=True, help="Drain every worker that runs now.")
@click.option(
    "--timeout", metavar="SECONDS", type=number_type(SECONDS), help="Wait at most so long.  [default: no limit]"
)
@click.option("--no-wait", is_flag=True, help="Ask them, and return at once.")
@output_options()
@click.pass_obj
def drain(
    context: Context, output: Output, targets: tuple[str, ...], everyone: bool, timeout: float | None, no_wait: bool
) -> int:
    """Let workers finish the shards in hand, then exit.

    They take no more shards, and end with exit code 0. WORKER is a number in `kvjobs worker ls`, HOST a host there: all
    workers that run on it now. One that starts later is not drained, so a worker that a service manager always starts
    again is better paused, or its service stopped.

    The command waits until they have ended and says who is left. It does not wait for a worker without a heartbeat
    for the length of a lease: its shards go to others, and if it lives, it drains once it reaches the database.

    0: all have ended. 4: some have not ended within the timeout; they go on draining.
    """
    from jobs.control.actions import this_user
    from jobs.control.worker_drain import drain_workers

    if everyone == bool(targets):
        raise click.UsageError("say which workers: their numbers, their hosts, or --all")
    settings = context.settings
    with context.database() as database:
        draining = drain_workers(database, targets, this_user(), settings.lease_s)
        if begun := [worker for worker in draining.workers if not worker.has_ended]:
            print_message(_begun(begun, settings.heartbeat_s))
        elif not draining.workers:
            print_message("No worker is running.")
        code = 0 if no_wait else _wait(context, database, draining, timeout)
        if output.is_json:
            from jobs.store.report.worker_list import WORKER_FIELDS

            output.rows((worker.as_row() for worker in draining.now(database)), (), WORKER_FIELDS)
    return code


def _begun(workers: "Sequence[WorkerSummary]", heartbeat_s: float) -> str:
    from jobs.control.actions import WorkerAction, worker_message

    if len(workers) == 1:
        return worker_message(workers[0], WorkerAction.DRAIN, heartbeat_s)
    return (
        f"{counted(len(workers), 'worker')} drain: after its next heartbeat, in {heartbeat_s:g} s at most, each "
        "finishes the shards in hand, takes no more, and ends."
    )


def _wait(context: Context, database: "Database", draining: "Draining", timeout: float | None) -> int:
    """Wait for their end, and say whenever one has ended; the exit code."""
    if not draining.workers:
        return 0
    started, said = time.monotonic(), _Said()
    try:
        while left := said.without_silent(_not_ended(database, draining)):
            passed_s = time.monotonic() - started
            if timeout is not None and passed_s >= timeout:
                print_message(
                    f"After {timeout:g} s {counted(len(left), 'worker')} of {len(draining.workers)} left, still "
                    f"draining: {_list(left)}."
                )
                return TIMED_OUT
            said.say_left(left)
            time.sleep(LOOK_EVERY_S if timeout is None else min(LOOK_EVERY_S, timeout - passed_s))
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"The workers go on draining. To see who is left: {context.command('worker', 'ls')}"
        ) from None
    print_message(_ended(draining.now(database)))
    return 0


def _not_ended(database: "Database", draining: "Draining") -> "list[WorkerSummary]":
    """Those that have not ended, after waiting `PATIENCE_S` at most for a database that does not answer."""
    give_up_at = time.monotonic() + PATIENCE_S
    while True:
        try:
            return draining.left(database)
        except TransientError:
            if time.monotonic() >= give_up_at:
                raise
        time.sleep(LOOK_EVERY_S)


class _Said:
    """What was said while waiting, so that nothing is said twice."""

    def __init__(self) -> None:
        self._left: set[int] = set()
        self._silent: set[int] = set()

    def without_silent(self, workers: "Sequence[WorkerSummary]") -> "list[WorkerSummary]":
        """Those with a heartbeat; says which have none."""
        for worker in workers:
            if not worker.is_alive and worker.worker_id not in self._silent:
                self._silent.add(worker.worker_id)
                print_message(
                    f"No heartbeat of {_named(worker)} for {duration(worker.silent_s)}: its shards go to others, "
                    "and it is not waited for."
                )
        return [worker for worker in workers if worker.is_alive]

    def say_left(self, workers: "Sequence[WorkerSummary]") -> None:
        """Say who is left, if somebody else was before."""
        ids = {worker.worker_id for worker in workers}
        if ids != self._left:
            print_message(f"{counted(len(workers), 'worker')} left: {_list(workers)}.")
        self._left = ids


def _named(worker: "WorkerSummary") -> str:
    return f"worker {worker.worker_id} on {visible(worker.host)}"


def _list(workers: "Sequence[WorkerSummary]") -> str:
    """Each worker with its shards, as JOB/SHARD; of many the first."""
    shown = []
    for worker in workers[:MOST_NAMED]:
        shards = " ".join(f"{shard['job_id']}/{shard['shard_id']}" for shard in worker.shards)
        shown.append(f"{_named(worker)} ({shards})" if shards else _named(worker))
    more = [f"{len(workers) - MOST_NAMED} more"] if len(workers) > MOST_NAMED else []
    return ", ".join(shown + more)


def _ended(workers: "Sequence[WorkerSummary]") -> str:
    killed = [worker for worker in workers if worker.state == "killed"]
    stopped = sum(worker.state == "stopped" for worker in workers)
    sentence = f"{counted(stopped, 'worker')} of {len(workers)} ended."
    if killed:
        sentence += f" Killed, so that others finish their shards: {_list(killed)}."
    return sentence
