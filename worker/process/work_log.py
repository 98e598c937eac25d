"""The log of a worker's processes on standard error; at level `info`: jobs begun and ended, shards begun and ended."""

import logging
import threading
import time
from contextlib import suppress

from jobs.errors import NotFoundError, StoreError
from jobs.settings import Settings
from jobs.store.database import Database
from jobs.store.queue.work import Work
from jobs.store.report.job_summary import find_job
from jobs.text import log_lines
from jobs.text.formatting import counted, duration

log = logging.getLogger(__name__)


class WorkLog:
    """The log of one worker process. Lanes share it; at a higher level it queries nothing."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._logged: set[tuple[str, int]] = set()
        self._begun_at: dict[str, float] = {}  # token of the lease -> when

    def log_begin(self, work: Work) -> None:
        """Log that a lane has leased a shard."""
        if not log.isEnabledFor(logging.INFO):
            return
        if self._is_first("begun", work.job_id):
            log.info("job %d: begun here (%s with %s)", work.job_id, work.spec.task, work.spec.model)
        documents = sum(map(len, work.batches))
        log.info(
            "job %d: shard %d begun by lane %d, %s to do",
            work.job_id, work.shard_id, work.lane, counted(documents, "document"),
        )  # fmt: skip
        self._begun_at[work.token] = time.monotonic()

    def log_end(self, work: Work, how: str) -> None:
        """Log how the lane's lease ended, in words: finished, given back or lost."""
        begun_at = self._begun_at.pop(work.token, None)
        if begun_at is None:
            return
        log.info("job %d: shard %d %s after %s", work.job_id, work.shard_id, how, duration(time.monotonic() - begun_at))
        with suppress(StoreError, NotFoundError):  # only for the log: the database may be unreachable, the job deleted
            self._log_end_of_job(work.job_id)

    def _log_end_of_job(self, job_id: int) -> None:
        with self._database.reading() as connection:
            job = find_job(connection, str(job_id))
        if job.has_ended and self._is_first("ended", job_id):
            log.info("job %s: %s, %s", job.label, job.state, job.counts_in_words)

    def _is_first(self, what: str, job_id: int) -> bool:
        with self._lock:
            is_new = (what, job_id) not in self._logged
            self._logged.add((what, job_id))
            if what == "begun":
                self._logged.discard(("ended", job_id))  # a retry has started the job again
            return is_new


def log_to_stderr(settings: Settings) -> None:
    """Write the log lines of this process from the level in the settings on, in their format."""
    log_lines.log_to_stderr(settings.log_level, settings.log_format, "%(asctime)s %(levelname)s %(message)s")
