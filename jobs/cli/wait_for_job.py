"""What `submit --wait` and `watch --work` do: see that a worker serves the job, follow it, and write its results."""

import contextlib
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from types import FrameType

from jobs.addresses.address import Location
from jobs.cli.render.job_end import cancelled_message, end_message
from jobs.cli.render.live_progress import progress
from jobs.cli.render.messages import print_message
from jobs.dispatch.embedded_worker import EmbeddedWorker
from jobs.export.export_file import default_format, export_file, write_results
from jobs.export.export_formats import Format
from jobs.export.export_options import Export
from jobs.operations.embedded_worker_starter import EmbeddedWorkerStarter
from jobs.operations.follow_job import follow_chain
from jobs.settings import Settings
from jobs.store.database import Database
from jobs.store.jobs import resume
from jobs.store.report.job_providers import JobProviders, providers_of
from jobs.store.report.job_summary import JobSummary
from jobs.store.report.totals import Totals, totals
from jobs.store.schema.states import JobState
from jobs.tolerance import Tolerance

INTERRUPTED = 130


def wait_for_job(
    settings: Settings,
    database: Database,
    job: JobSummary,
    output: Location | None,
    tolerance: Tolerance | None,
    *,
    again: str,
    early: EmbeddedWorker | None = None,
) -> Sequence[JobSummary]:
    """Wait until a job and the stages of its chain have ended, write the results to `output` (`-`: standard output;
    None: nowhere), and return the stages, or the job alone.

    The first Ctrl-C finishes the current batch, then raises a KeyboardInterrupt that advises the command `again`; the
    second kills the worker and exits at once. `early`: a worker that waits for its job.
    """
    if job.paused:
        resume(database, job.job_id)
        print_message(f"Job {job.label} was paused{job.because}; it is resumed.")
    starter, is_over = EmbeddedWorkerStarter(settings, database, print_message, early), job.has_ended
    with _interruptible(starter):
        try:
            stages = _follow(database, job, starter)
            is_over = True
            starter.release()
            if cancelled := [stage for stage in stages if stage.state == JobState.CANCELLED]:
                print_message(cancelled_message(cancelled[0]))
            else:
                _write(database, stages, output)
                own_output = output if len(stages) == 1 else None
                for stage in stages:
                    print_message(end_message(stage, own_output, tolerance, *_totals(database, stage)))
                if len(stages) > 1 and output is not None and str(output) != "-":
                    print_message(f"Results of all stages in {output}.")
        except KeyboardInterrupt:
            if not is_over:
                print_message("Finishing the current batch; press Ctrl-C again to stop at once.")
            starter.stop()
            raise KeyboardInterrupt(f"Interrupted; finished documents are kept. To continue: {again}") from None
        finally:
            starter.stop()
    return stages


def _follow(database: Database, job: JobSummary, starter: EmbeddedWorkerStarter) -> Sequence[JobSummary]:
    if job.has_ended and job.chain is None:
        return [job]
    with progress() as shown:

        def update(summary: JobSummary) -> None:
            starter.start_if_needed(summary)
            shown.update(summary, starter.note)

        return follow_chain(database, job, update)


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


def _write(database: Database, stages: Sequence[JobSummary], output: Location | None) -> None:
    if output is None:
        return
    job, whole = stages[0], Export(stages=stages if len(stages) > 1 else ())
    if str(output) == "-":
        sys.stdout.flush()  # the results bypass its text buffer
        form = default_format(whole, job.reading, Format.JSONL)
        write_results(database, job, sys.stdout.buffer, form, whole, tell=print_message)
    else:
        export_file(database, job, output, whole, tell=print_message)


def _totals(database: Database, job: JobSummary) -> tuple[Totals | None, JobProviders]:
    with database.reading() as connection:
        return totals(connection, job) if job.kind.is_scored else None, providers_of(connection, job)
