"""How a command about one job ends: its exit code, its JSON, and the command that continues it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from jobs.addresses.address import Location
from jobs.cli.context import Context
from jobs.cli.parsed_type import Parsed
from jobs.tolerance import Tolerance

if TYPE_CHECKING:
    from jobs.store.database import Database
    from jobs.store.report.job_summary import JobSummary


max_rejected_option = click.option(
    "--max-rejected",
    "tolerance",
    type=Parsed(Tolerance.parse),
    metavar="N|P%",
    help="Exit with 0 if no more lines than this were rejected (10, 0.5%) and all other documents are ok.  [default: "
    "as submitted]",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print the job as JSON.")


def exit_code_of_chain(stages: "Sequence[JobSummary]", tolerance: Tolerance | None) -> int:
    """The exit code for the outcome of a chain, the worst of its stages, or of one job; 0 while it has not ended.
    `tolerance`: in place of the stored one."""
    return max(stage.exit_code_with(tolerance) or 0 for stage in stages)


def is_tolerated(job: "JobSummary", tolerance: Tolerance | None) -> bool:
    """Whether a job has ended with no failure other than rejected lines, and no more of these than allowed."""
    return bool(job.rejected) and job.exit_code_with(tolerance) == 0


def print_job(context: Context, database: "Database", job: "JobSummary", exit_code: int, **more: Any) -> None:
    """Print the job to standard output as one line of JSON: the keys of `kvjobs ls --json`, with the exit code of this
    command instead of the job's, and `more`."""
    from jobs.store.report.live_job import live_jobs
    from jobs.text.json_text import to_json

    with database.reading() as connection:
        (live,) = live_jobs(connection, [job], context.settings.lease_s)
    click.echo(to_json(live.as_row() | more | {"exit_code": exit_code}).decode())


def print_ended_job(
    context: Context,
    database: "Database",
    job: "JobSummary",
    exit_code: int,
    stages: "Sequence[JobSummary]" = (),
    **more: Any,
) -> None:
    """Print the JSON of `print_job`, with `answers` (the providers, as `kvjobs show` has it) and a chain's `stages`."""
    from jobs.store.report.job_providers import providers_of
    from jobs.store.report.live_job import live_jobs

    with database.reading() as connection:
        answers = providers_of(connection, job)
        if len(stages) > 1:
            more["stages"] = [stage.as_row() for stage in live_jobs(connection, stages, context.settings.lease_s)]
    print_job(context, database, job, exit_code, **more, answers=answers)


def watch_command(
    context: Context, job_id: int, output: Location | None, tolerance: Tolerance | None, as_json: bool
) -> str:
    """The command that continues an interrupted `submit --wait` to the same result, without making another job."""
    options: list[object] = ["-o", output] if output else []
    options += ["--max-rejected", tolerance] if tolerance else []
    options += ["--json"] if as_json else []
    return context.command("watch", job_id, "--work", *options)
