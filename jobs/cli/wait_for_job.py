"""What `submit --wait` and `watch --work` do: see that a worker serves the job, follow it, and write its results."""

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from jobs.cli.embedded_worker_starter import EmbeddedWorkerStarter
from jobs.cli.follow_job import follow
from jobs.cli.render.job_end import cancelled_message, end_message
from jobs.cli.render.live_progress import progress
from jobs.cli.render.messages import print_message
from jobs.export.export_file import export_file, write_results
from jobs.export.export_formats import Format
from jobs.settings import Settings
from jobs.spec import Task
from jobs.store.database import Database
from jobs.store.jobs import resume
from jobs.store.report.job_providers import JobProviders, providers_of
from jobs.store.report.job_summary import JobSummary
from jobs.store.report.totals import Totals, totals
from jobs.store.schema.states import JobState
from jobs.submission.tolerance import Tolerance

INTERRUPTED = 130


def wait_for_job(
    settings: Settings,
    database: Database,
    job: JobSummary,
    output: Path | None,
    tolerance: Tolerance | None,
    *,
    again: str,
) -> JobSummary:
    """Wait until a job has ended, write its results to `output` (`-`: standard output; None: nowhere), and return it.

    The first Ctrl-C finishes the current batch, then raises a KeyboardInterrupt that advises the command `again`; the
    second kills the worker and exits at once.
    """
    if job.paused:
        resume(database, job.job_id)
        print_message(f"Job {job.label} was paused" + (f" ({job.reason})" if job.reason else "") + "; it is resumed.")
    starter = EmbeddedWorkerStarter(settings, database)
    with _interruptible(starter):
        try:
            if not job.has_ended:
                job = _follow(database, job, starter)
            starter.release()
            if job.state == JobState.CANCELLED:
                print_message(cancelled_message(job))
            else:
                _write(database, job, output)
                print_message(end_message(job, output, tolerance, *_totals(database, job)))
        except KeyboardInterrupt:
            if not job.has_ended:
                print_message("Finishing the current batch; press Ctrl-C again to stop at once.")
            starter.stop()
            raise KeyboardInterrupt(f"Interrupted; finished documents are kept. To continue: {again}") from None
        finally:
            starter.stop()
    return job


def _follow(database: Database, job: JobSummary, starter: EmbeddedWorkerStarter) -> JobSummary:
    with progress() as shown:

        def update(summary: JobSummary) -> None:
            starter.start_if_needed(summary)
            shown.update(summary, starter.note)

        return follow(database, job.job_id, update)


@contextlib.contextmanager
def _interruptible(starter: EmbeddedWorkerStarter) -> Iterator[None]:
    """The first signal raises KeyboardInterrupt, the second kills the worker and exits."""
    is_interrupted = False

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        nonlocal is_interrupted
        if is_interrupted:
            starter.kill()
            os._exit(INTERRUPTED)
        is_interrupted = True
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _write(database: Database, job: JobSummary, output: Path | None) -> None:
    if output is None:
        return
    if str(output) == "-":
        sys.stdout.flush()  # the results bypass its text buffer
        write_results(database, job, sys.stdout.buffer, Format.JSONL, tell=print_message)
    else:
        export_file(database, job, output, tell=print_message)


def _totals(database: Database, job: JobSummary) -> tuple[Totals | None, JobProviders]:
    with database.reading() as connection:
        return totals(connection, job) if job.task == Task.SCORE else None, providers_of(connection, job)
