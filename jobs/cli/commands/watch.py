"""`kvjobs watch` and `kvjobs wait`: follow a job until it has ended."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import click

from jobs.addresses.address import Location, located
from jobs.cli.context import Context
from jobs.cli.job_exit import (
    exit_code_of_chain,
    is_tolerated,
    json_option,
    max_rejected_option,
    print_ended_job,
    watch_command,
)
from jobs.cli.number_types import number_type
from jobs.cli.parsed_type import Parsed
from jobs.cli.render.messages import print_message
from jobs.errors import SpecError
from jobs.number_ranges import SECONDS
from jobs.tolerance import Tolerance

if TYPE_CHECKING:
    from jobs.store.database import Database
    from jobs.store.report.job_summary import JobSummary

TIMED_OUT = 4


@click.command()
@click.argument("reference", metavar="JOB")
@click.option("--work", is_flag=True, help="Start a worker if none serves the job, as submit --wait does.")
@click.option(
    "-o",
    "--output",
    type=Parsed(located),
    metavar="PATH",
    help="With --work: the file for the results; - is standard output.  [default: no results are written]",
)
@max_rejected_option
@json_option
@click.pass_obj
def watch(
    context: Context,
    reference: str,
    work: bool,
    output: Location | None,
    tolerance: Tolerance | None,
    as_json: bool,
) -> int:
    """Follow a job until it ends.

    Shows the documents and tokens done, tokens per second over the last minute, the estimated time left, and the number
    of failures. Ctrl-C stops the display, not the job. The exit code is that of `kvjobs wait`. An open job ends after
    it is closed (kvjobs close).

    --work continues an interrupted `submit --wait`: a paused job is resumed, a worker is started on this machine if
    none serves the job, and the results are written to -o.
    """
    from jobs.store.report.job_summary import find_job

    if output and not work:
        raise SpecError("-o needs --work; without it, export the results: kvjobs export JOB -o FILE")
    if as_json and str(output) == "-":
        raise SpecError(
            "--json writes to standard output, and so would the results; write the results to a file with -o FILE"
        )
    with context.database() as database:
        with database.reading() as connection:
            job = find_job(connection, reference)
        do = partial(_work, output=output, tolerance=tolerance, as_json=as_json) if work else _watch
        stages = do(context, database, job)
        code = exit_code_of_chain(stages, tolerance)
        if as_json:
            written = str(output) if output else None
            print_ended_job(context, database, _same(job, stages), code, stages, output=written)
    return code


def _work(
    context: Context,
    database: "Database",
    job: "JobSummary",
    output: Location | None,
    tolerance: Tolerance | None,
    as_json: bool,
) -> "Sequence[JobSummary]":
    from jobs.advice.next_command import submit_again
    from jobs.cli.wait_for_job import wait_for_job
    from jobs.export.export_file import check_results_file

    if output and str(output) != "-":
        check_results_file(
            output, task=job.task, corpus=job.source, reading=job.reading, is_chain=job.chain is not None
        )
    if job.state == "ingesting":
        print_message(
            f"The corpus of job {job.label} is not read completely. If no submit is reading it: {submit_again(job)}"
        )
    _say_open(job)
    again = watch_command(context, job.job_id, output, tolerance, as_json)
    return wait_for_job(context.settings, database, job, output, tolerance, again=again)


def _watch(context: Context, database: "Database", job: "JobSummary") -> "Sequence[JobSummary]":
    from jobs.advice.next_command import next_steps
    from jobs.cli.render.job_page import next_lines
    from jobs.cli.render.live_progress import progress
    from jobs.operations.follow_job import follow_chain
    from jobs.operations.stalled_job import StallNotice
    from jobs.store.report.failures import failures
    from jobs.store.report.live_job import live_jobs

    _say_open(job)
    try:
        hint = StallNotice(database, context.settings.lease_s, print_message)
        with progress() as shown:

            def update(summary: "JobSummary") -> None:
                hint.update(summary)
                shown.update(summary, hint.note)

            stages = follow_chain(database, job, update)
    except KeyboardInterrupt:
        raise _interrupted(context, job) from None
    with database.reading() as connection:
        live = live_jobs(connection, stages, context.settings.lease_s)[-1]
        steps = next_steps(live, failures(connection, live), stages)
    print_message("\n".join(next_lines(steps)))
    return stages


@click.command()
@click.argument("reference", metavar="JOB")
@click.option(
    "--timeout", metavar="SECONDS", type=number_type(SECONDS), help="Wait at most so long.  [default: no limit]"
)
@max_rejected_option
@json_option
@click.pass_obj
def wait(context: Context, reference: str, timeout: float | None, tolerance: Tolerance | None, as_json: bool) -> int:
    """Wait until a job ends; the exit code is its outcome.

    An open job ends after it is closed (kvjobs close).

    0: all documents succeeded. 3: some failed, were rejected, quarantined or cancelled. 1: the corpus was never read
    completely. 4: the job has not ended within the timeout.
    """
    from jobs.operations.follow_job import follow_chain
    from jobs.operations.stalled_job import StallNotice
    from jobs.store.report.job_summary import find_job

    with context.database() as database:
        with database.reading() as connection:
            job = find_job(connection, reference)
        _say_open(job)
        try:
            notice = StallNotice(database, context.settings.lease_s, print_message)
            stages = follow_chain(database, job, notice.update, timeout_s=timeout)
        except KeyboardInterrupt:
            raise _interrupted(context, job) from None
        code = exit_code_of_chain(stages, tolerance)
        for stage in stages:
            if not stage.has_ended:
                code = TIMED_OUT
                print_message(f"Job {stage.label} has not ended after {timeout:g} s: {stage.counts_in_words}.")
                continue
            allowed = "; --max-rejected allows these lines" if is_tolerated(stage, tolerance) else ""
            print_message(f"Job {stage.label} is {stage.state}: {stage.counts_in_words}{allowed}.")
        if as_json:
            print_ended_job(context, database, _same(job, stages), code, stages)
    return code


def _say_open(job: "JobSummary") -> None:
    """Say what an open job waits for, before it is followed."""
    if job.is_open:
        print_message(
            f"Job {job.label} is open: documents may be appended, and it ends after it is closed. To close it: kvjobs "
            f"close {job.job_id}"
        )


def _same(job: "JobSummary", stages: "Sequence[JobSummary]") -> "JobSummary":
    """The summary of this job among the newest summaries of its chain's jobs."""
    return next(stage for stage in stages if stage.job_id == job.job_id)


def _interrupted(context: Context, job: "JobSummary") -> KeyboardInterrupt:
    """Tell the user that Ctrl-C did not end the job."""
    return KeyboardInterrupt(
        f"The job {job.label} continues. To follow it again: {context.command('watch', job.job_id)}"
    )
