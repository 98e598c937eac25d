"""Asking a server about many documents at a time."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from jobs.outcome import Outcome
from worker.providers.http.client import Exchange
from worker.providers.http.event_loop import EventLoop
from worker.providers.protocol import ProviderFailure, Unanswered

Document = TypeVar("Document")
Ask = Callable[[Document, Exchange], Coroutine[Any, Any, Outcome | Unanswered]]


def ask_for_each(
    loop: EventLoop,
    documents: Sequence[Document],
    ask: Ask[Document],
    *,
    concurrency: int,
    should_stop: Callable[[], bool],
) -> tuple[list[Outcome | Unanswered], Exchange]:
    """The answer to each document, in order, and what all requests took.

    `concurrency` documents are under way at a time. After the first ProviderFailure no document is begun; those that
    are under way are finished, and all others are `Unanswered` with that failure. Raises Stopped.
    """
    return loop.run(_ask_for_each(documents, ask, concurrency), should_stop)


async def _ask_for_each(
    documents: Sequence[Document], ask: Ask[Document], concurrency: int
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
                answer = await ask(document, exchange)
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
