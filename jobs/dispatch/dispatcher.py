"""The dispatcher: a thread of every worker with a broker; only the one that holds the role sends hints."""

import logging
import threading

from celery import Celery

from jobs.dispatch.broker import BrokerError
from jobs.dispatch.broker_status import BrokerStatus
from jobs.dispatch.hints import send_missing
from jobs.errors import StoreError
from jobs.store.database import Database
from jobs.store.singleton_roles import DISPATCHER, acquire_role, release_role

log = logging.getLogger(__name__)

TICK_S = 2.0
ROLE_S = 15.0


class Dispatcher:
    """Sends missing hints again and again; no error of the broker or the database ends it."""

    def __init__(
        self, database: Database, app: Celery, holder: str, broker_status: BrokerStatus, *, silence_s: float
    ) -> None:
        self._database = database
        self._app = app
        self._holder = holder
        self._broker_status = broker_status
        self._silence_s = silence_s

    def run(self, stop: threading.Event) -> None:
        """Until `stop`; then release the role, so that another process can have it at once."""
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
        """One round; whether this process has the role."""
        try:
            if not acquire_role(self._database, DISPATCHER, self._holder, ROLE_S):
                return False
            if send_missing(self._database, self._app, self._silence_s):
                self._broker_status.back()
        except BrokerError as error:
            self._broker_status.lost(str(error))
        except StoreError as error:
            log.info("no hints: %s", error)  # the supervisor and the lanes report it
        return True
