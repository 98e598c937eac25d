"""When a command or a program that waits for a job starts an embedded worker: while no other worker serves the job."""

import contextlib
import time
from collections.abc import Callable

from jobs.dispatch.embedded_worker import EmbeddedWorker
from jobs.dispatch.reaper import reap
from jobs.errors import KvjobsError, SpecError, TransientError
from jobs.operations.stalled_job import JobsAheadNotice
from jobs.queues import CPU
from jobs.settings import Settings
from jobs.store.database import Database
from jobs.store.queue.waiting import is_served
from jobs.store.report.job_summary import JobSummary
from jobs.store.report.worker_list import list_workers
from jobs.store.schema.states import JobState
from jobs.system.process import parent_of
from jobs.worker_port import worker_port

LOOK_EVERY_S = 2.0
SOON_S = 1.0  # a worker without a batch stops sooner than this


class EmbeddedWorkerStarter:
    """Starts an embedded worker for a job whenever no other worker serves the job, and stops it at the end."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        tell: Callable[[str], None],
        early: EmbeddedWorker | None = None,
    ) -> None:
        """`tell` gets sentences for the user. `early`: a worker for the queue cpu that waits for its job."""
        self.note = ""  # for the progress line: why the job waits
        self._settings = settings
        self._database = database
        self._tell = tell
        self._worker: EmbeddedWorker | None = None
        self._early = early
        self._jobs_ahead = JobsAheadNotice(database, tell)
        self._next_look = 0.0
        self._is_gpu_message_printed = False
        self._is_released = False
        self._was_drained = False  # then others have the job: a worker in its place would undo what a person asked for

    def start_if_needed(self, job: JobSummary) -> None:
        """Start an embedded worker if no worker serves the job. To be called often: it looks every `LOOK_EVERY_S`.

        Raises KvjobsError if a worker paused the job, or if the embedded worker failed.
        """
        if job.paused and job.reason:
            raise KvjobsError(f"job {job.label} is paused: {job.reason}")
        if self._worker:
            for line in self._worker.new_lines():
                self._tell(line)
            if self._worker.check():
                return
            self._note_drained(self._worker, job)
        if job.has_ended or job.state == JobState.INGESTING or time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + LOOK_EVERY_S
        with contextlib.suppress(TransientError):  # the database does not answer: try again later
            if is_served(self._database, job.queue, job.model, self._settings.lease_s):
                self.note = self._jobs_ahead.note(job)
                self._end_early()
            elif self._was_drained:
                self.note = "drained; no worker serves it"
            else:
                self._start_worker(job)

    def _start_worker(self, job: JobSummary) -> None:
        try:
            device = worker_port().device_for(job.queue)
        except SpecError as error:
            self.note = "no worker with a GPU"
            if not self._is_gpu_message_printed:
                self._tell(
                    f"Job {job.label} waits for a worker with a GPU, because its queue is gpu. No such worker runs, "
                    f"and none can be started here: {error}. On a machine with a GPU: kvjobs worker --device cuda:0"
                )
            self._is_gpu_message_printed = True
            return
        self.note = ""
        reap(self._database)
        if self._early is None or device != CPU:
            self._worker = EmbeddedWorker(self._settings, device)
        else:
            self._worker, self._early = self._early, None
        self._worker.serve(job.job_id)

    def _note_drained(self, worker: EmbeddedWorker, job: JobSummary) -> None:
        if worker.was_drained() and not self._was_drained:
            self._was_drained = True
            self._tell(
                f"The worker of this command was asked to drain, and has ended. Job {job.label} waits for another: "
                "kvjobs worker. Ctrl-C ends the waiting, and keeps what is finished."
            )

    def _end_early(self) -> None:
        """End the early worker, which waits for a job that another worker serves."""
        if self._early:
            self._early.kill()
        self._early = None

    def wake(self) -> None:
        """Let the embedded worker, if there is one, look for work now."""
        if self._worker:
            self._worker.wake()

    def release(self) -> None:
        """Ask the embedded worker to stop after its batch, which may be another job's. Does not wait for that."""
        self._is_released = True
        if self._worker:
            self._worker.ask_to_stop()

    def stop(self) -> None:
        """Stop the embedded worker: wait until it has finished its batch."""
        if self._worker is None:
            return
        try:
            if self._is_released and not self._worker.ends_within(SOON_S) and self._has_shard(self._worker):
                self._tell(
                    "The worker started for this job is finishing a batch of another job; Ctrl-C stops it at once."
                )
            self._worker.stop()
        except KeyboardInterrupt:  # the results are written: only the batch of the other job is lost
            self._worker.kill()
        self._worker = None

    def _has_shard(self, worker: EmbeddedWorker) -> bool:
        """Whether the embedded worker still holds a shard; one that only takes long to end does not."""
        with contextlib.suppress(TransientError), self._database.reading() as connection:
            workers = list_workers(connection, self._settings.lease_s)
            return any(row.shards and row.is_here and parent_of(row.pid) == worker.pid for row in workers)
        return False

    def kill(self) -> None:
        """Kill the embedded worker."""
        if self._worker:
            self._worker.kill()
