"""The batches of OpenAI's API are moved on by a thread of the dashboard: their files become jobs, and what ended jobs
leave becomes files.

Whatever is killed, the next process goes on: the job of a batch has the batch's key, so that no batch gets two, and a
change of status names the one before. Several dashboards on one database share the work; a batch is taken where the
bytes of its file are.
"""

import json
import logging
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

from jobs.choices import Only
from jobs.control.actions import Action, perform
from jobs.corpus.corpus import UPLOAD
from jobs.corpus.openai.request_kind import ENDPOINTS
from jobs.errors import KvjobsError, NotFoundError, SpecError, TransientError
from jobs.export.export_formats import Format
from jobs.export.export_options import Export
from jobs.export.result_lines import result_lines
from jobs.operations.plan import CorpusFile, SubmitPlan, plan_submit
from jobs.operations.submit import submit_plan, wake_workers
from jobs.operations.upload_folder import UploadFolder, refusing
from jobs.settings import Settings
from jobs.store.database import Database
from jobs.store.openai_batches import OPEN, BatchStatus, StoredBatch, change_batch, find_batch, open_batches
from jobs.store.report.job_summary import JobSummary, find_job
from jobs.store.schema.states import JobState
from jobs.store.uploads import add_file, expired_files, find_file, known_ids, remove_file
from jobs.submission.job_options import SubmitRequest
from jobs.system.failpoints import failpoint

BUSY_S, IDLE_S, CLEAN_S = 0.5, 5.0, 600.0  # between two looks: with open batches, without, at old files
ACTOR = "openai-api"
WRITE_BYTES = 1 << 20
LOG = logging.getLogger(__name__)


@contextmanager
def running_batches(database: Database, settings: Settings) -> "Iterator[BatchRunner]":
    """Move batches on for the time of the block."""
    runner = BatchRunner(database, settings)
    runner.start()
    try:
        yield runner
    finally:
        runner.stop()


class BatchRunner:
    """The thread, until it is stopped."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings
        self._folder = UploadFolder.of(settings)
        self._changed = threading.Event()
        self._stopping = threading.Event()
        self._cleaned_at = float("-inf")
        self._thread = threading.Thread(target=self._run, name="batches", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the thread after what it does just now; a corpus that it reads is read to its end by the next process."""
        self._stopping.set()
        self._changed.set()
        self._thread.join(timeout=2.0)

    def wake(self) -> None:
        """Look now: a batch is new, or is to be cancelled."""
        self._changed.set()

    def look(self) -> bool:
        """Move every open batch as far as it goes; whether there is any. Raises StoreError."""
        if time.monotonic() - self._cleaned_at > CLEAN_S:
            self._clean_up()
            self._cleaned_at = time.monotonic()
        with self._database.reading() as connection:
            batches = open_batches(connection)
        for batch in batches:
            if not self._stopping.is_set():
                self._move(batch)
        return bool(batches)

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._changed.clear()
            is_busy = True
            try:
                is_busy = self.look()
            except KvjobsError as error:  # the database is away: it is asked again
                LOG.warning("batches wait: %s", error)
            self._changed.wait(BUSY_S if is_busy else IDLE_S)

    def _clean_up(self) -> None:
        def known(ids: Collection[str]) -> set[str]:
            with self._database.reading() as connection:
                return known_ids(connection, ids)

        with refusing(self._folder.path):
            self._folder.clean_up(known)
        with self._database.reading() as connection:
            over = expired_files(connection)
        for file_id in over:
            if remove_file(self._database, file_id):
                self._folder.delete(file_id)

    def _move(self, batch: StoredBatch) -> None:
        try:
            match BatchStatus(batch.status):
                case BatchStatus.VALIDATING:
                    self._submit(batch)
                case BatchStatus.CANCELLING:
                    self._cancel(batch)
                case _:
                    self._finish(batch)
        except TransientError as error:
            LOG.warning("batch %s waits: %s", batch.id, error)
        except KvjobsError as error:
            self._fail(batch, error)
        except Exception as error:
            LOG.exception("batch %s failed", batch.id)
            self._fail(batch, KvjobsError(f"this is a bug in kvjobs ({error})"))

    def _submit(self, batch: StoredBatch) -> None:
        """Make the job of a batch, or go on with it."""
        path = self._folder.find(batch.input_file_id)
        if path is None:
            with self._database.reading() as connection:
                is_there = find_file(connection, batch.input_file_id) is not None
            if not is_there:
                raise NotFoundError(f"the file {batch.input_file_id} was deleted")
            return  # another machine has its bytes
        with path.open("rb", buffering=0) as stream:
            plan = self._plan(batch, CorpusFile(path="-", stream=stream, source=UPLOAD))
            try:
                submitted = submit_plan(
                    self._database, plan, self._settings, owner=batch.owner, max_open=batch.max_open
                )
            except KvjobsError:
                if not self._is(batch, BatchStatus.VALIDATING):
                    return  # it was cancelled meanwhile
                raise
        failpoint("after-batch-submit")
        wake_workers(self._database, submitted, self._settings)
        known: dict[str, Any] = {"job_id": submitted.job_id, "model": plan.spec.model}
        if not change_batch(self._database, batch.id, (BatchStatus.VALIDATING,), BatchStatus.IN_PROGRESS, **known):
            change_batch(self._database, batch.id, OPEN, **known)

    def _plan(self, batch: StoredBatch, file: CorpusFile) -> SubmitPlan:
        request = SubmitRequest.read({"format": Format.OPENAI.value, "key": f"openai:{batch.id}", "name": batch.id})
        plan = plan_submit(request, file, self._settings, tell=LOG.info)
        assert plan.corpus.requests is not None
        asked = plan.corpus.requests.kind.endpoint
        if asked is not ENDPOINTS[batch.endpoint]:
            raise SpecError(f"the batch is for {batch.endpoint}, and its requests are for {asked}")
        return plan

    def _cancel(self, batch: StoredBatch) -> None:
        job = self._job_of(batch)
        if job is None:
            change_batch(self._database, batch.id, (BatchStatus.CANCELLING,), BatchStatus.CANCELLED)
        elif job.has_ended:
            self._finish(batch)
        elif job.cancel_requested_at is None:
            perform(self._database, str(job.job_id), Action.CANCEL, ACTOR)

    def _finish(self, batch: StoredBatch) -> None:
        """Write the files of a batch whose job has ended."""
        job = self._job_of(batch)
        if job is None:
            raise NotFoundError("its job was deleted before its answers were written")
        if not job.has_ended:
            return
        if job.state == JobState.FAILED:
            raise SpecError(job.reason or "its requests could not be read")
        is_asked = batch.status == BatchStatus.CANCELLING or job.state == JobState.CANCELLED
        if not is_asked and batch.status == BatchStatus.IN_PROGRESS:
            change_batch(self._database, batch.id, (BatchStatus.IN_PROGRESS,), BatchStatus.FINALIZING)
        values = {
            "output_file_id": self._write(batch, job, Only.OK, "out"),
            "error_file_id": self._write(batch, job, Only.FAILED, "err"),
            **counts_of(job),
        }
        failpoint("before-batch-end")
        ended = BatchStatus.CANCELLED if is_asked else BatchStatus.COMPLETED
        change_batch(self._database, batch.id, OPEN, ended, job_id=job.job_id, **values)

    def _write(self, batch: StoredBatch, job: JobSummary, only: Only, what: str) -> str | None:
        """Write the lines of some documents to a file; its id, None where there is no line."""
        file_id = f"file-{what}-{batch.id.removeprefix('batch_')}"
        with self._folder.new_file() as file:
            num_bytes, held = 0, bytearray()
            lines = result_lines(
                self._database, job, Format.OPENAI, Export(form=Format.OPENAI, only=only), tell=LOG.info
            )
            for line in lines:
                held += line
                num_bytes += len(line)
                if len(held) > WRITE_BYTES:
                    _write_all(self._folder, file, held)
                    held.clear()
            if not num_bytes:
                return None
            _write_all(self._folder, file, held)
            self._folder.keep(file, file_id)
        name = f"{batch.id}_{'output' if only is Only.OK else 'error'}.jsonl"
        add_file(
            self._database,
            id=file_id,
            owner=batch.owner,
            filename=name,
            purpose="batch_output",
            num_bytes=num_bytes,
        )
        return file_id

    def _job_of(self, batch: StoredBatch) -> JobSummary | None:
        """The job of the batch, also one that a killed process made without saying so: it has the batch's name."""
        with self._database.reading() as connection:
            try:
                return find_job(connection, str(batch.job_id or batch.id))
            except NotFoundError:
                return None

    def _is(self, batch: StoredBatch, status: BatchStatus) -> bool:
        with self._database.reading() as connection:
            found = find_batch(connection, batch.id)
        return found is not None and found.status == status

    def _fail(self, batch: StoredBatch, error: KvjobsError) -> None:
        errors = [{"code": error.code, "message": str(error), "param": None, "line": None}]
        change_batch(self._database, batch.id, OPEN, BatchStatus.FAILED, errors=json.dumps(errors))


def counts_of(job: JobSummary) -> dict[str, int]:
    """The requests and tokens of a batch, by its job. Where no text is written, tokens that were scored were read."""
    is_written = job.kind.text is not None
    read, written = (job.source_tokens, job.target_tokens) if is_written else (job.target_tokens, 0)
    return {
        "num_requests": job.total_documents,
        "num_completed": job.succeeded,
        "num_failed": job.total_documents - job.succeeded - job.waiting,
        "input_tokens": read,
        "output_tokens": written,
    }


def _write_all(folder: UploadFolder, file: BinaryIO, data: bytearray) -> None:
    with refusing(folder.path):
        left = memoryview(bytes(data))
        while left:
            left = left[file.write(left) :]
