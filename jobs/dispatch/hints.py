"""Sending missing hints: as many as the waiting work needs, minus those that the broker still holds.

So a lost hint is sent again in the next round, and one that is waiting is not sent twice. The dispatcher is a thread of
every worker with a broker; only the one that holds the role sends hints.
"""

import logging
import threading
from collections.abc import Callable

from celery import Celery

from jobs.dispatch.broker import BrokerError, BrokerStatus, make_app, send_hints, waiting_hints
from jobs.errors import KvjobsError, StoreError
from jobs.settings import Settings
from jobs.store.database import Database
from jobs.store.queue.waiting import hints_wanted
from jobs.store.singleton_roles import DISPATCHER, acquire_role, release_role

MAX_WAIT_S = 2.0


def send_missing(database: Database, app: Celery, silence_s: float) -> int:
    """Send each queue the hints that it lacks for its ready shards and its workers; returns how many were sent.

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


log = logging.getLogger(__name__)

TICK_S = 2.0
ROLE_S = 15.0


class Dispatcher:
    """Sends missing hints again and again; no error of the broker or the database ends it."""

    def __init__(
        self,
        database: Database,
        app: Celery,
        holder: str,
        broker_status: BrokerStatus,
        *,
        silence_s: float,
        also: Callable[[], None] = lambda: None,
    ) -> None:
        """`also` is called at each tick while this process has the role; it may raise BrokerError."""
        self._database = database
        self._app = app
        self._holder = holder
        self._broker_status = broker_status
        self._silence_s = silence_s
        self._also = also

    def run(self, stop: threading.Event) -> None:
        """Send hints until `stop`; then release the role, so that another process can take it at once."""
        while not stop.wait(TICK_S):
            self.tick()
        try:
            release_role(self._database, DISPATCHER, self._holder)
        except StoreError as error:
            log.info(
                "another worker will send hints after %.0f s, not at once: %s",
                ROLE_S,
                error,
            )

    def tick(self) -> bool:
        """Send the hints that are missing, if this process has the role; returns whether it has."""
        try:
            if not acquire_role(self._database, DISPATCHER, self._holder, ROLE_S):
                return False
            if send_missing(self._database, self._app, self._silence_s):
                self._broker_status.back()
            self._also()
        except BrokerError as error:
            self._broker_status.lost(str(error))
        except StoreError as error:
            log.info("no hints: %s", error)  # the supervisor and the lanes report it
        return True
