"""Asking a server about many documents at a time."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from jobs.outcome import Outcome
from jobs.providers import Reason
from worker.providers.http.client import Exchange
from worker.providers.http.event_loop import EventLoop
from worker.providers.protocol import ProviderFailure, Unanswered

SERVER_AT_FAULT = 8  # documents, as `worker.isolation.bisect.MODEL_AT_FAULT`

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


def answer_texts(
    loop: EventLoop,
    texts: Sequence[str],
    ask: Ask[str],
    *,
    concurrency: int,
    should_stop: Callable[[], bool],
) -> tuple[list[Outcome | Unanswered], Exchange]:
    """As `ask_for_each`, for texts: equal ones are asked once. Where the server declines every one of many texts, it is
    the server that cannot do the job, not each text that is unfit. Raises Stopped."""
    distinct = list(dict.fromkeys(texts))
    found, exchange = ask_for_each(loop, distinct, ask, concurrency=concurrency, should_stop=should_stop)
    declined = [one for one in found if isinstance(one, Unanswered) and one.code is Reason.DECLINED]
    if len(declined) == len(found) >= SERVER_AT_FAULT:
        every = f"the server declines each of {len(found)} documents; the first because {declined[0].reason}"
        found = [Unanswered(Reason.BAD_ANSWER, every)] * len(found)
    by_text = dict(zip(distinct, found, strict=True))
    return [by_text[text] for text in texts], exchange
