"""Asking a server about many documents at a time."""

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from jobs.answers import Answers, Unanswered
from jobs.errors import Stopped
from jobs.outcome import Outcome
from jobs.providers import Reason
from jobs.store.queue.batches import Batch
from worker.engine.runtime.run_context import RunContext
from worker.providers.http.client import Exchange
from worker.providers.protocol import ProviderFailure

SERVER_AT_FAULT = 8  # documents, as `worker.isolation.bisect.MODEL_AT_FAULT`
LOOK_EVERY_S = 0.1  # whether to stop; also a sign of life for the watchdog
T = TypeVar("T")


class EventLoop:
    """The event loop of a process's HTTP clients, in a thread of its own: lanes are threads, requests are coroutines.
    Starts at the first call; ends with `close`, else with the process.

    A coroutine can be cancelled at any point, so a deadline holds for a whole request, even where a server sends a byte
    a second, and a worker that is to stop does not wait for an answer.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(self, work: Coroutine[Any, Any, T], run: RunContext) -> T:
        """The result of a coroutine. Raises the errors of the coroutine, and Stopped where the run is to end."""
        future = asyncio.run_coroutine_threadsafe(work, self._started())
        while True:
            try:
                return future.result(timeout=LOOK_EVERY_S)
            except concurrent.futures.TimeoutError:
                if future.done():  # the coroutine itself raised a TimeoutError
                    raise
                if run.should_stop():
                    future.cancel()
                    raise Stopped("stopped while waiting for a server") from None

    def close(self) -> None:
        """End the thread. Nothing may be running."""
        with self._lock:
            if self._loop is not None and self._thread is not None:
                self._loop.call_soon_threadsafe(self._loop.stop)
                self._thread.join()
                self._loop.close()
            self._loop = self._thread = None

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="http", daemon=True)
                self._thread.start()
            return self._loop


@dataclass(frozen=True, slots=True)
class TooLong(Unanswered):
    """A document that is longer than the server takes."""


Document = TypeVar("Document")
DocumentRequest = Callable[[Document, Exchange], Coroutine[Any, Any, Outcome | Unanswered]]


def request_each(
    loop: EventLoop,
    documents: Sequence[Document],
    request: DocumentRequest[Document],
    *,
    concurrency: int,
    run: RunContext,
) -> tuple[list[Outcome | Unanswered], Exchange]:
    """The answer to each document, in order, and the number and time of all requests.

    `concurrency` documents are under way at a time. After the first ProviderFailure no document is begun; those that
    are under way are finished, and all others are `Unanswered` with that failure. Raises Stopped.
    """
    return loop.run(_request_each(documents, request, concurrency), run)


async def _request_each(
    documents: Sequence[Document], request: DocumentRequest[Document], concurrency: int
) -> tuple[list[Outcome | Unanswered], Exchange]:
    found: list[Outcome | Unanswered | None] = [None] * len(documents)
    exchange = Exchange()
    failures: list[Unanswered] = []
    waiting = iter(enumerate(documents))

    async def work() -> None:
        for index, document in waiting:  # shared: each document is begun once
            if failures:
                return
            try:
                answer = await request(document, exchange)
            except ProviderFailure as failure:
                failures.append(Unanswered(failure.reason, str(failure)))
                return
            found[index] = answer
            if isinstance(answer, Unanswered) and answer.is_failure:
                failures.append(answer)

    async with asyncio.TaskGroup() as group:
        for _ in range(min(concurrency, len(documents))):
            group.create_task(work())
    # A document is left only after a failure.
    return [failures[0] if answer is None else answer for answer in found], exchange


async def until_unanswered(
    texts: Sequence[str], request: Callable[[str], Coroutine[Any, Any, T | Unanswered]], *, concurrency: int
) -> list[T] | Unanswered:
    """The result of `request` for each text, in order; or the first `Unanswered`. After it no text is begun; texts
    that are under way are finished. Equal texts are asked once. Raises ProviderFailure."""
    found: dict[str, T] = {}
    failures: list[Unanswered | ProviderFailure] = []
    waiting = iter(dict.fromkeys(texts))

    async def work() -> None:
        for text in waiting:  # shared: each is begun once
            if failures:
                return
            try:
                answer = await request(text)
            except ProviderFailure as failure:
                failures.append(failure)
                return
            if isinstance(answer, Unanswered):
                failures.append(answer)
            else:
                found[text] = answer

    async with asyncio.TaskGroup() as group:
        for _ in range(min(concurrency, len(texts))):
            group.create_task(work())
    if failures:
        if isinstance(failures[0], ProviderFailure):
            raise failures[0]
        return failures[0]
    return [found[text] for text in texts]


def answer_documents(
    loop: EventLoop, documents: Batch, request: DocumentRequest[str], *, concurrency: int, run: RunContext
) -> Answers:
    """As `request_each`, for texts of documents: equal ones are asked once. Where the server declines every one of many
    texts for the same reason, and not for its length, it is the server that cannot do the job, not each text that is
    unfit. Raises Stopped."""
    distinct = list(dict.fromkeys(document.text for document in documents))
    found, exchange = request_each(loop, distinct, request, concurrency=concurrency, run=run)
    reasons = {_why_declined(outcome) for outcome in found}
    if len(found) >= SERVER_AT_FAULT and len(reasons) == 1 and (reason := reasons.pop()):
        every = f"the server declines each of {len(found)} documents, always because {reason}"
        found = [Unanswered(Reason.BAD_ANSWER, every)] * len(found)
    by_text = dict(zip(distinct, found, strict=True))
    return Answers([by_text[document.text] for document in documents], timings=exchange.timings)


def _why_declined(outcome: Outcome | Unanswered) -> str | None:
    """Why the server declined a document that is not too long for it; None: it did not."""
    if isinstance(outcome, TooLong) or not isinstance(outcome, Unanswered):
        return None
    return outcome.reason if outcome.code is Reason.DECLINED else None
