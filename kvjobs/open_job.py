"""A job that stays open: documents are added one by one, from any thread, while workers process those that are there.

with kv.open(task="translate", model="opus-mt-en-de-int8") as job:
    id = job.add("Snow will fall.")
    print(job.result(id)["translation"])

add --buffer--> sender thread --a batch every LINGER_S--> backend
result <--condition-- reader thread <--outcomes of the ids that somebody waits for-- backend
"""

import asyncio
import contextlib
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import orjson

from jobs.errors import KvjobsError, SpecError, TransientError
from kvjobs.field_types import JsonTypes
from kvjobs.job import PATIENCE_S, Job
from kvjobs.rows import line_of

if TYPE_CHECKING:
    from kvjobs.backend import Backend

LINGER_S = 0.05  # that a document waits for others
BATCH_DOCUMENTS = 500  # that are sent at a time
MOST_BUFFERED = 10_000  # documents; `add` then waits for the sender
POLL_S = 0.02  # between two looks at what somebody waits for
LONGEST_POLL_S = 0.2
MOST_ASKED = 1000  # ids in one look
RETRY_S = 1.0
LAST_FLUSH_S = 30.0  # of a job that stays open
IDLE_S = 10.0  # without anybody who waits, until the reader ends


class OpenJob(Job):
    """An open job. Threads may share it. Close it, or use it in a `with` block; where that block ends in an error, a
    job with a key stays open, so that the program can go on with it (`kv.open(key=...)`) or close it."""

    def __init__(self, backend: "Backend", info: dict[str, Any], *, key: str | None = None) -> None:
        super().__init__(backend, info)
        self.refused: dict[str, str] = {}  # by the id of a document that was not taken: why
        self._key = key
        self._json = JsonTypes()
        self._changed = threading.Condition()
        self._buffer: list[dict[str, Any]] = []
        self._sending = 0  # documents that are on their way
        self._wanted: dict[str, int] = {}  # by id: how many threads wait for its outcome
        self._found: dict[str, dict[str, Any]] = {}
        self._without_result: set[str] = set()  # ids of refused documents
        self._problem: KvjobsError | None = None  # that ended a thread
        self._is_closing = False
        self._has_reader = False
        threading.Thread(target=self._send, daemon=True).start()

    def add(self, document: str | Mapping[str, Any], *, id: str | int | None = None) -> str:
        """Add a document: a text, or a dict as a row of `submit`; returns its id, a new one where it has none. It is
        sent within moments (`flush` waits for that). The same document added again is the same document; another one
        with its id is refused. Raises SpecError for a document that is none, and after `close`."""
        row: dict[str, Any] = {"text": document} if isinstance(document, str) else dict(document)
        own = row.get("id") if id is None else id
        row["id"] = uuid.uuid4().hex if own is None or own == "" else own
        row = orjson.loads(line_of(row, 1, self._json))
        with self._changed:
            self._changed.wait_for(lambda: len(self._buffer) < MOST_BUFFERED or self._problem or self._is_closing)
            self._raise_problem()
            if self._is_closing:
                raise SpecError(f"job {self.id} is closed: it takes no more documents")
            self._buffer.append(row)
            self._changed.notify_all()
        return str(row["id"])

    def flush(self, timeout: float | None = None) -> None:
        """Wait until every document that was added is in the database. Raises TimeoutError."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._problem or not (self._buffer or self._sending), timeout):
                raise TimeoutError(f"{len(self._buffer) + self._sending} documents of job {self.id} are not sent yet")
            self._raise_problem()

    def result(self, id: str | int, timeout: float | None = None) -> dict[str, Any]:
        """Wait for the outcome of a document: a record as of `results`, whose `status` may be failed. Raises
        TimeoutError; SpecError for a document that was refused or never added."""
        wanted = str(id)
        with self._changed:
            self._wanted[wanted] = self._wanted.get(wanted, 0) + 1
            if not self._has_reader:
                self._has_reader = True
                threading.Thread(target=self._read, daemon=True).start()
            self._changed.notify_all()
            try:
                is_there = self._changed.wait_for(
                    lambda: wanted in self._found or wanted in self._without_result or self._problem, timeout
                )
                if wanted in self._found:
                    return self._found[wanted]
                if wanted in self._without_result:
                    raise SpecError(f"the document {wanted!r} was not taken: {self.refused[wanted]}")
                self._raise_problem()
                assert not is_there
                raise TimeoutError(f"the document {wanted!r} of job {self.id} has not ended after {timeout:g} s")
            finally:
                self._wanted[wanted] -= 1
                if not self._wanted[wanted]:
                    del self._wanted[wanted]
                    self._found.pop(wanted, None)

    async def result_async(self, id: str | int, timeout: float | None = None) -> dict[str, Any]:
        """As `result`, for a coroutine."""
        return await asyncio.to_thread(self.result, id, timeout)

    def results(self, where: str | None = None, *, follow: bool = False, **options: Any) -> Iterator[dict[str, Any]]:
        """As `Job.results`; with `follow` each document as it ends, until the job is closed and done."""
        if not follow:
            yield from super().results(where, **options)
            return
        if where is not None or options:
            raise SpecError("follow gives every document as it ends; leave the other options out")
        for line in self._backend.ended_documents(self.id):
            yield orjson.loads(line)

    def close(self) -> Self:
        """Send what was added, and take no more: the job ends when its last document does (`wait`)."""
        with self._changed:
            was_closing, self._is_closing = self._is_closing, True
            self._changed.notify_all()
        if not was_closing:
            self.flush()
            self._act("close")
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None or self._key is None:
            self.close()
            return
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        with contextlib.suppress(KvjobsError, TimeoutError):  # the error of the block is the one to tell
            self.flush(LAST_FLUSH_S)

    def _raise_problem(self) -> None:
        if self._problem:
            raise self._problem

    def _send(self) -> None:
        """The sender: batches of documents, in the order in which they were added."""
        seen_to = 0.0
        while (batch := self._next_batch()) is not None:
            if batch:
                self._deliver(batch)
            if time.monotonic() - seen_to > RETRY_S and not self._problem:
                self._see_to_worker()
                seen_to = time.monotonic()

    def _next_batch(self) -> list[dict[str, Any]] | None:
        """The next documents, an empty list if nothing came for a while; None: no more will come."""
        with self._changed:
            self._changed.wait_for(lambda: self._buffer or self._is_closing, RETRY_S)
            if self._problem or (self._is_closing and not self._buffer):
                return None
            if self._buffer and not self._is_closing:
                self._changed.wait_for(lambda: len(self._buffer) >= BATCH_DOCUMENTS or self._is_closing, LINGER_S)
            batch, self._buffer = self._buffer[:BATCH_DOCUMENTS], self._buffer[BATCH_DOCUMENTS:]
            self._sending = len(batch)
            self._changed.notify_all()
            return batch

    def _deliver(self, batch: list[dict[str, Any]]) -> None:
        began, answers = time.monotonic(), list[dict[str, Any]]()
        problem: KvjobsError | None = None
        while True:
            try:
                answers = self._backend.append(self.id, batch)
                break
            except TransientError as error:  # the same documents again are the same documents
                if time.monotonic() - began > PATIENCE_S:
                    problem = error
                    break
                time.sleep(RETRY_S)
            except KvjobsError as error:
                problem = error
                break
        with self._changed:
            self._sending, self._problem = 0, self._problem or problem
            for document, answer in zip(batch, answers, strict=False):
                if answer["state"] == "refused":
                    self.refused[str(document["id"])] = str(answer["reason"])
                    if answer["position"] is None:  # else another document has this id, and a result
                        self._without_result.add(str(document["id"]))
            self._changed.notify_all()

    def _see_to_worker(self) -> None:
        try:
            self._backend.see_to_worker(self.id)
        except TransientError:
            return
        except KvjobsError as error:
            with self._changed:
                self._problem = error
                self._changed.notify_all()

    def _read(self) -> None:
        """The reader: the outcomes of the documents that somebody waits for."""
        pause_s = POLL_S
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._open_ids() or self._problem, IDLE_S)
                asked = self._open_ids()[:MOST_ASKED]
                if self._problem or not asked:
                    self._has_reader = False
                    return
            try:
                found = self._backend.outcomes(self.id, asked)
            except TransientError:
                found = {}
            except KvjobsError as error:
                with self._changed:
                    self._problem, self._has_reader = error, False
                    self._changed.notify_all()
                return
            with self._changed:
                self._found.update({name: record for name, record in found.items() if name in self._wanted})
                self._changed.notify_all()
            pause_s = POLL_S if found else min(2 * pause_s, LONGEST_POLL_S)
            time.sleep(pause_s)

    def _open_ids(self) -> list[str]:
        return [name for name in self._wanted if name not in self._found and name not in self._without_result]
