"""Sending missing hints: as many as the waiting work needs, minus those that the broker still holds.

So a lost hint is sent again in the next round, and one that is waiting is not sent twice.
"""

import threading

from celery import Celery

from jobs.dispatch.broker import make_app, send_hints, waiting_hints
from jobs.errors import KvjobsError
from jobs.settings import Settings
from jobs.store.database import Database
from jobs.store.queue.waiting import hints_wanted

MAX_WAIT_S = 2.0


def send_missing(database: Database, app: Celery, silence_s: float) -> int:
    """Send each queue the hints that it lacks for its ready shards and its workers; how many were sent.

    Raises BrokerError where the broker does not answer, TransientError where the database does not.
    """
    sent = 0
    for queue, wanted in hints_wanted(database, silence_s).items():
        missing = wanted - waiting_hints(app, queue)
        if missing > 0:
            send_hints(app, queue, missing)
            sent += missing
    return sent


def hint_at_once(database: Database, settings: Settings) -> str | None:
    """Send hints after a commit, so that workers begin at once. Returns what went wrong, if anything: workers then find
    the work by polling. Takes 2 s at most."""
    problems: list[str] = []

    def send() -> None:
        try:
            send_missing(database, make_app(settings.broker), settings.lease_s)
        except KvjobsError as error:
            problems.append(str(error))

    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    sender.join(MAX_WAIT_S)
    if sender.is_alive():
        return "the broker does not answer"
    return problems[0] if problems else None
