"""What `submit --wait` and `watch --work` do: see that somebody works on a job, follow it, write the results."""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from jobs.cli.commands.show import reused
from jobs.cli.ending import is_tolerated
from jobs.cli.export.export_file import export_file, write_results
from jobs.cli.export.export_formats import Format
from jobs.cli.render.live_progress import Turn, follow, progress
from jobs.cli.render.task_words import WORDS
from jobs.cli.render.terminal import say
from jobs.dispatch.embedded import EmbeddedWorker
from jobs.dispatch.reaper import reap
from jobs.errors import KvjobsError, SpecError, TransientError
from jobs.formatting import count, counted, duration
from jobs.settings import Settings
from jobs.spec import Task
from jobs.store.database import Database
from jobs.store.jobs import resume
from jobs.store.report.job_summary import JobSummary
from jobs.store.report.totals import totals
from jobs.store.schema.states import JobState
from jobs.store.waiting import is_served
from jobs.submission.tolerance import Tolerance
from jobs.worker_port import worker_port

INTERRUPTED = 130
LOOK_EVERY_S = 2.0
SOON_S = 1.0  # a worker that has nothing in hand ends sooner


def attend(
    settings: Settings,
    database: Database,
    job: JobSummary,
    output: Path | None,
    tolerance: Tolerance | None,
    *,
    again: str,
) -> JobSummary:
    """See a job through to its results, which go to `output` (`-`: standard output; None: nowhere); how it ended.

    Ctrl-C once ends after the batch in hand with a KeyboardInterrupt that advises the command `again`, twice at once.
    """
    if job.paused:
        resume(database, job.job_id)
        say(f"Job {job.label} was paused" + (f" ({job.reason})" if job.reason else "") + "; it goes on.")
    attendant = Attendant(settings, database)
    with _interruptible(attendant):
        try:
            if not job.has_ended:
                job = _follow(database, job, attendant)
            attendant.let_go()
            if job.state == JobState.CANCELLED:
                say(_cancelled(job))
            else:
                _write(database, job, output)
                say(_summary(job, output, tolerance, _perplexity(database, job)))
        except KeyboardInterrupt:
            if not job.has_ended:
                say("Finishing the batch in hand; Ctrl-C again leaves at once.")
            attendant.dismiss()
            raise KeyboardInterrupt(f"Interrupted; what is done is kept. To go on: {again}") from None
        finally:
            attendant.dismiss()
    return job


def _follow(database: Database, job: JobSummary, attendant: "Attendant") -> JobSummary:
    with progress() as shown:

        def update(summary: JobSummary) -> None:
            attendant.look(summary)
            shown.update(summary, attendant.note)

        return follow(database, job.job_id, update)


class Attendant:
    """Brings a worker along for a job that no other worker serves, at whatever moment of its life that is."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self.note = ""  # for the line of progress: why nothing moves
        self._settings = settings
        self._database = database
        self._worker: EmbeddedWorker | None = None
        self._turn = Turn(database)
        self._next_look = 0.0
        self._says_what_is_missing = True
        self._is_let_go = False

    def look(self, job: JobSummary) -> None:
        """Start a worker where none serves the job. Raises KvjobsError where the job cannot go on by itself."""
        if job.paused and job.reason:
            raise KvjobsError(f"job {job.label} is paused: {job.reason}")
        if self._worker:
            for line in self._worker.news():
                say(line)
            if self._worker.check():
                return
        if job.has_ended or job.state == JobState.INGESTING or time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + LOOK_EVERY_S
        with contextlib.suppress(TransientError):  # a database that is away for a moment: we look again
            if is_served(self._database, job.queue, job.model, self._settings.lease_s):
                self.note = self._turn.wait(job)
            else:
                self._bring_worker(job)

    def _bring_worker(self, job: JobSummary) -> None:
        try:
            device = worker_port().device_for(job.queue)
        except SpecError as error:
            self.note = "no worker with a GPU"
            if self._says_what_is_missing:
                say(
                    f"Job {job.label} waits for a worker with a GPU, as its queue says. None runs, and there can be "
                    f"none here: {error}. Where there is a GPU, start one with: kvjobs worker --device cuda:0"
                )
            self._says_what_is_missing = False
            return
        self.note = ""
        reap(self._database)
        self._worker = EmbeddedWorker(self._settings, job.job_id, device)

    def let_go(self) -> None:
        """The job needs our worker no more. It may have begun a batch of another, for which its results need not
        wait."""
        self._is_let_go = True
        if self._worker:
            self._worker.ask_to_stop()

    def dismiss(self) -> None:
        """Let our worker finish its batch, and wait for its end."""
        if self._worker is None:
            return
        try:
            if self._is_let_go and not self._worker.ends_within(SOON_S):
                say("The worker that was brought finishes a batch of another job; Ctrl-C leaves at once.")
            self._worker.stop()
        except KeyboardInterrupt:  # the results are written: only the other job's batch is lost
            self._worker.kill()
        self._worker = None

    def kill(self) -> None:
        """End our worker at once."""
        if self._worker:
            self._worker.kill()


@contextlib.contextmanager
def _interruptible(attendant: Attendant) -> Iterator[None]:
    """The first signal raises KeyboardInterrupt, a second one ends everything where it stands."""
    asked = False

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            attendant.kill()
            os._exit(INTERRUPTED)
        asked = True
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
        sys.stdout.flush()  # what follows goes past its buffer
        write_results(database, job, sys.stdout.buffer, Format.JSONL)
    else:
        export_file(database, job, output)


def _perplexity(database: Database, job: JobSummary) -> str:
    """That of the whole corpus, and what to do with it."""
    if job.task != Task.SCORE:
        return ""
    with database.reading() as connection:
        whole = totals(connection, job)
    if whole.perplexity is None:
        return "\nNo token was scored."
    said = f"\nPerplexity of the corpus: {whole.perplexity:,.4f} by token ({counted(whole.num_tokens, 'token')})"
    if whole.bits_per_byte is not None:
        said += f", {whole.bits_per_byte:.4f} bits per byte"
    unscored = f"; not a token scored of {counted(whole.unscored, 'document')}" if whole.unscored else ""
    lines = f"\nOnly the better lines: kvjobs export {job.job_id} --where 'perplexity < 50' --format original"
    return f"{said}{unscored}.{lines}"


def _cancelled(job: JobSummary) -> str:
    """Somebody else ended it: a file that looks whole would mislead."""
    words = WORDS[job.task]
    return (
        f"Job {job.label} was cancelled: {count(job.succeeded)} of {words.counted(job.documents)} {words.done}, and no "
        f"results written.\nTo go on with it: kvjobs retry {job.job_id}"
        f"\nTo write what there is: kvjobs export {job.job_id} --only ok -o FILE"
    )


def _summary(job: JobSummary, output: Path | None, tolerance: Tolerance | None, of_task: str) -> str:
    words = WORDS[job.task]
    done = f"Job {job.label} is {job.state}: {count(job.succeeded)} of {words.counted(job.documents)} {words.done}"
    took = "" if job.elapsed_s is None else f" in {duration(job.elapsed_s)}"  # none: no worker has begun it
    speed = f" ({job.tokens_per_s:,.0f} tokens/s)" if job.tokens_per_s else ""
    known = f"; {reused(job)}" if job.documents_reused or job.segments_reused else ""  # a speed beyond the model's
    place = f"; results in {output}" if output and str(output) != "-" else ""
    more = f"\nWhat went wrong: kvjobs show {job.job_id}" if job.unsuccessful else ""
    if job.rejected and job.rejected == job.unsuccessful:
        more += f" (to end with 0 all the same: --max-rejected {job.rejected})"
    if is_tolerated(job, tolerance):
        more = f"\n{counted(job.rejected, 'line')} rejected, as --max-rejected allows: kvjobs show {job.job_id}"
    more += f"\nWhere the time went: kvjobs steps {job.job_id}"
    return f"{done}{took}{speed}{known}{place}.{of_task}{more}"
