"""`kvjobs ls`: the list of jobs."""

from typing import TYPE_CHECKING, Any

import click

from jobs.choices import SHOWN_STATES
from jobs.cli.choice import SuggestingChoice
from jobs.cli.context import Context
from jobs.cli.number_types import number_type
from jobs.cli.render.messages import print_message
from jobs.cli.render.output import Column, Output, output_options
from jobs.number_ranges import Whole
from jobs.queues import PRIORITIES
from jobs.stage import NO_MODEL
from jobs.text.formatting import count, duration, moment, percent

if TYPE_CHECKING:
    from jobs.store.report.live_job import LiveJob

DEFAULT_LIMIT = 20


def _model(name: str) -> str:
    return "-" if name == NO_MODEL else name


def _row(job: "LiveJob") -> dict[str, Any]:
    """A job as a row; its state in the table says that it is open."""
    from jobs.facts.job import tokens_of

    shown = f"open, {job.shown_state}" if job.is_open else job.shown_state
    return job.as_row() | {"tokens": tokens_of(job).value, "state_shown": shown}


def _priority(number: int) -> str:
    """The word that --priority takes for this number, else the number."""
    return next((name for name, priority in PRIORITIES.items() if priority == number), str(number))


COLUMNS = (
    Column("job_id", "JOB", right=True),
    Column("name", "NAME"),
    Column("state_shown", "STATE"),
    Column("share_done", "DONE", percent, right=True),
    Column("documents", "DOCUMENTS", count, right=True, rank=5),
    Column("ok", "OK", count, right=True, rank=4),
    Column("not_ok", "NOT OK", count, right=True, rank=3),
    Column("tokens", "TOKENS", count, right=True, rank=8),
    Column("elapsed_s", "TIME", duration, right=True, rank=6),
    Column("task", "TASK", rank=1),
    Column("model", "MODEL", _model, rank=2),
    Column("priority", "PRIORITY", _priority, right=True, rank=7),
    Column("created_at", "SUBMITTED", moment, rank=9),
)


@click.command()
@click.option("-a", "--all", "everything", is_flag=True, help="List all jobs, without a limit.")
@click.option(
    "--state",
    "states",
    metavar="STATE",
    type=SuggestingChoice(SHOWN_STATES),
    multiple=True,
    help=f"Only jobs in this state: {', '.join(SHOWN_STATES)}.  [repeatable]",
)
@click.option(
    "--limit",
    metavar="N",
    type=number_type(Whole(1)),
    default=DEFAULT_LIMIT,
    show_default=True,
    help="List at most so many jobs.",
)
@output_options(csv=True, ids=True)
@click.pass_obj
def ls(context: Context, output: Output, everything: bool, states: tuple[str, ...], limit: int) -> None:
    """List jobs, newest first."""
    from jobs.store.report.live_job import LIVE_FIELDS, list_live_jobs

    with context.database() as database, database.reading() as connection:
        most = None if everything else limit + 1
        jobs = list_live_jobs(connection, context.settings.lease_s, states=states, limit=most)
    shown = jobs if everything else jobs[:limit]
    if output.is_table and not jobs:
        print_message(
            "No job is in such a state." if states else "There is no job yet; submit a corpus: kvjobs submit CORPUS"
        )
        return
    output.rows((_row(job) for job in shown), COLUMNS, LIVE_FIELDS)
    if len(shown) < len(jobs):
        print_message(f"Only the newest {limit} are shown; --all shows every job, --limit N another number.")
