"""The Celery task `kvjobs.submit`: a job from a Celery application, whose answer is the job's number.

    app.send_task("kvjobs.submit", [documents], {"task": "score", "model": "gpt2"}, queue="kvjobs.submit").get()

The process here is started where the queue has a message (`worker.fleet.submit_starter`), and ends when nothing has
come for a while. A message is acknowledged when its job is there: if the process dies, the next one gets the message
again, and the same documents and options are the same job.
"""

import json
import logging
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

from celery.worker import WorkController, state

from jobs.corpus.corpus import PROGRAM
from jobs.corpus.corpus_format import Format
from jobs.dispatch.submit_messages import SUBMIT, make_submit_app, return_submits
from jobs.dispatch.worker_arguments import WorkerArguments
from jobs.errors import SpecError
from jobs.operations.plan import Admissions, CorpusFile, plan_submit
from jobs.operations.submit import spool_of, submit_plan, wake_workers
from jobs.settings import Settings
from jobs.store.database import Database
from jobs.submission.job_options import SubmitRequest
from jobs.system.private import make_folder
from jobs.text.log_lines import log_to_stderr

OWNER = "a Celery application"
IDLE_S = 60.0  # without a message, until the process ends
LOOK_S = 1.0
log = logging.getLogger(__name__)


class Submitter:
    """Makes the jobs of messages."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self.used_at = time.monotonic()
        self.is_busy = False
        self._settings = settings
        self._database = database
        self._admissions = Admissions()

    def submit(self, documents: str | Sequence[Any], options: Mapping[str, Any]) -> int:
        """The number of the job. `documents`: dicts or texts, or the path of a corpus on this machine; `options`: as of
        `SubmitRequest.read`. Raises KvjobsError."""
        self.is_busy = True
        try:
            make_folder(folder := spool_of(self._settings))
            with tempfile.TemporaryFile(dir=folder) as file:
                return self._submit(documents, dict(options), file)
        finally:
            self.is_busy, self.used_at = False, time.monotonic()

    def _submit(self, documents: str | Sequence[Any], options: dict[str, Any], file: BinaryIO) -> int:
        corpus = CorpusFile(path=documents) if isinstance(documents, str) else _spooled(documents, file)
        if corpus.stream is not None:
            options["format"] = Format.JSONL.value
        request = SubmitRequest.read(options)
        plan = plan_submit(request, corpus, self._settings, tell=log.info, admissions=self._admissions)
        submitted = submit_plan(self._database, plan, self._settings, owner=OWNER)
        wake_workers(self._database, submitted, self._settings)
        log.info("job %d was submitted by a Celery application", submitted.job_id)
        return submitted.job_id


def _spooled(documents: Sequence[Any], file: BinaryIO) -> CorpusFile:
    if not isinstance(documents, list):
        raise SpecError(f"documents is {type(documents).__name__}; send a list of objects or texts, or a path")
    for document in documents:
        row = {"text": document} if isinstance(document, str) else document
        file.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
    file.flush()
    return CorpusFile(path="-", stream=file, source=PROGRAM)


def main() -> int:
    """Take messages until none has come for a while, or the parent ends; the exit code."""
    arguments = WorkerArguments.from_argument(sys.argv[1])
    settings = arguments.settings
    log_to_stderr(settings.log_level, settings.log_format, "kvjobs submit: %(message)s")
    database = Database.open(settings.database_url, busy_timeout_s=settings.busy_timeout_s)
    submitter = Submitter(settings, database)
    app = make_submit_app(settings.broker)

    @app.task(name=SUBMIT, shared=False)  # type: ignore[untyped-decorator]
    def submit(documents: str | list[Any], options: dict[str, Any] | None = None, /, **more: Any) -> int:
        return submitter.submit(documents, {**(options or {}), **more})

    app.set_default()
    return_submits(app)
    threading.Thread(target=_end_when_idle, args=(submitter,), daemon=True).start()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    WorkController(
        app=app,
        pool_cls="threads",
        concurrency=1,
        prefetch_multiplier=1,
        without_mingle=True,
        without_gossip=True,
        without_heartbeat=True,
    ).start()
    return 0


def _end_when_idle(submitter: Submitter) -> None:
    while submitter.is_busy or time.monotonic() - submitter.used_at < IDLE_S:
        time.sleep(LOOK_S)
    state.should_stop = 0


def _end_with_parent() -> None:
    sys.stdin.buffer.read()
    state.should_stop = 0


if __name__ == "__main__":
    sys.exit(main())
