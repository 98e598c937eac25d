"""Why a job does not move, while a command follows it: it is paused, no worker serves it, or others are ahead."""

import contextlib
import time
from collections.abc import Callable

from jobs.advice.waiting_reasons import jobs_ahead_sentence, no_worker_sentence
from jobs.choices import PAUSED, WAITING, state_in_words
from jobs.errors import TransientError
from jobs.store.database import Database
from jobs.store.queue.waiting import JobsAhead, jobs_ahead
from jobs.store.report.job_summary import JobSummary
from jobs.store.report.waiting_work import service_of
from jobs.text.formatting import counted

HINT_AFTER_S = 3.0  # a worker that was just started needs a moment


class JobsAheadNotice:
    """Tells, once, which jobs are processed before this one."""

    def __init__(self, database: Database, tell: Callable[[str], None]) -> None:
        self._database = database
        self._tell = tell
        self._is_printed = False

    def note(self, job: JobSummary) -> str:
        """A short text for the progress line; empty where no job is ahead."""
        ahead = read_jobs_ahead(self._database, job.job_id)
        if not ahead.jobs:
            return ""
        if not self._is_printed:
            self._tell(jobs_ahead_sentence(ahead))
        self._is_printed = True
        return f"waits for {counted(ahead.jobs, 'job')} ahead of it"


class StallNotice:
    """Tells, once, why a job makes no progress."""

    def __init__(self, database: Database, silence_s: float, tell: Callable[[str], None]) -> None:
        """A worker without a heartbeat for `silence_s` counts as gone."""
        self.note = ""  # for the progress line
        self._database = database
        self._silence_s = silence_s
        self._tell = tell
        self._jobs_ahead = JobsAheadNotice(database, tell)
        self._since = time.monotonic()
        self._printed: str | None = None

    def update(self, job: JobSummary) -> None:
        if time.monotonic() - self._since < HINT_AFTER_S or job.has_ended:
            return
        self._since = time.monotonic()
        hint = None
        if job.recorded_state == PAUSED:
            self.note = ""
            hint = f"Job {job.label} is paused{job.because}. To resume it: kvjobs resume {job.job_id}"
        elif job.shards_open:
            with contextlib.suppress(TransientError):  # unknown for now
                hint = no_worker_message(self._database, job.queue, job.model, self._silence_s)
                self.note = self._jobs_ahead.note(job) if hint is None else state_in_words(WAITING)
        if hint and hint != self._printed:
            self._tell(hint)
        self._printed = hint


def no_worker_message(database: Database, queue: str, model: str, silence_s: float) -> str | None:
    """What to do if no worker serves the jobs of this queue and model; None if one does."""
    with database.reading() as connection:
        return no_worker_sentence(service_of(connection, queue, model, silence_s), queue)


def read_jobs_ahead(database: Database, job_id: int) -> JobsAhead:
    """The jobs whose shards are leased before the shards of this job."""
    with database.reading() as connection:
        return jobs_ahead(connection, job_id)
