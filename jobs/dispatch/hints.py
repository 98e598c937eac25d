"""Sends the hints that are missing: as many as there is work for, less those that wait already.

A hint that was lost is missing, so the next round sends it again; one that is there is not sent twice.
"""

import threading

from celery import Celery

from jobs.dispatch.broker import make_app, send_hints, waiting_hints
from jobs.errors import KvjobsError
from jobs.settings import Settings
from jobs.store.database import Database
from jobs.store.waiting import hints_wanted

PATIENCE_S = 2.0


def send_missing(database: Database, app: Celery, silence_s: float) -> int:
    """Bring the hints of each queue up to what its work and its workers ask for; how many were sent.

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
    """Wake the workers after a commit. What went wrong, if anything: they will find the work by themselves. Takes
    2 s at most, whatever the network does."""
    problems: list[str] = []

    def send() -> None:
        try:
            send_missing(database, make_app(settings.broker), settings.lease_s)
        except KvjobsError as error:
            problems.append(str(error))

    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    sender.join(PATIENCE_S)
    if sender.is_alive():
        return "the broker does not answer"
    return problems[0] if problems else None
