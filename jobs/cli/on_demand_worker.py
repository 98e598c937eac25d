"""The worker that `submit --wait` and `watch --work` start where no other serves the job."""

import contextlib
import time

from jobs.cli.render.messages import print_message
from jobs.cli.stalled_job import JobsAheadNotice
from jobs.dispatch.embedded import EmbeddedWorker
from jobs.dispatch.reaper import reap
from jobs.errors import KvjobsError, SpecError, TransientError
from jobs.settings import Settings
from jobs.store.database import Database
from jobs.store.report.job_summary import JobSummary
from jobs.store.schema.states import JobState
from jobs.store.waiting import is_served
from jobs.worker_port import worker_port

LOOK_EVERY_S = 2.0
SOON_S = 1.0  # a worker that has nothing in hand ends sooner


class OnDemandWorker:
    """Brings a worker along for a job that no other worker serves, at whatever moment of its life that is."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self.note = ""  # for the line of progress: why nothing moves
        self._settings = settings
        self._database = database
        self._worker: EmbeddedWorker | None = None
        self._turn = JobsAheadNotice(database)
        self._next_look = 0.0
        self._no_gpu_is_news = True
        self._is_released = False

    def look(self, job: JobSummary) -> None:
        """Start a worker where none serves the job. Raises KvjobsError where the job cannot go on by itself."""
        if job.paused and job.reason:
            raise KvjobsError(f"job {job.label} is paused: {job.reason}")
        if self._worker:
            for line in self._worker.new_lines():
                print_message(line)
            if self._worker.check():
                return
        if job.has_ended or job.state == JobState.INGESTING or time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + LOOK_EVERY_S
        with contextlib.suppress(TransientError):  # a database that is away for a moment: we look again
            if is_served(self._database, job.queue, job.model, self._settings.lease_s):
                self.note = self._turn.wait(job)
            else:
                self._start_worker(job)

    def _start_worker(self, job: JobSummary) -> None:
        try:
            device = worker_port().device_for(job.queue)
        except SpecError as error:
            self.note = "no worker with a GPU"
            if self._no_gpu_is_news:
                print_message(
                    f"Job {job.label} waits for a worker with a GPU, as its queue says. None runs, and there can be "
                    f"none here: {error}. Where there is a GPU, start one with: kvjobs worker --device cuda:0"
                )
            self._no_gpu_is_news = False
            return
        self.note = ""
        reap(self._database)
        self._worker = EmbeddedWorker(self._settings, job.job_id, device)

    def release(self) -> None:
        """The job needs our worker no more. It may have begun a batch of another, for which its results need not
        wait."""
        self._is_released = True
        if self._worker:
            self._worker.ask_to_stop()

    def stop(self) -> None:
        """Let our worker finish its batch, and wait for its end."""
        if self._worker is None:
            return
        try:
            if self._is_released and not self._worker.ends_within(SOON_S):
                print_message("The worker that was brought finishes a batch of another job; Ctrl-C leaves at once.")
            self._worker.stop()
        except KeyboardInterrupt:  # the results are written: only the other job's batch is lost
            self._worker.kill()
        self._worker = None

    def kill(self) -> None:
        """End our worker at once."""
        if self._worker:
            self._worker.kill()
