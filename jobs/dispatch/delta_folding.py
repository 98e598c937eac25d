"""Folding of deltas: adds what recorded batches have appended (`jobs.store.queue.deltas`) to the sums of their jobs.

A thread of every worker whose database is PostgreSQL; one of the fleet has the role and folds. Two at once do no harm,
and where none lives reports stay right: they add up what waits to be folded each time.
"""

import logging
import random
import threading

from jobs.errors import StoreError
from jobs.store.database import Database
from jobs.store.queue.deltas import fold
from jobs.store.singleton_roles import FOLDING, acquire_role, release_role

log = logging.getLogger(__name__)

FOLD_EVERY_S = 1.0
ROLE_S = 15.0


class DeltaFolding:
    """Folds again and again; no error of the database ends it."""

    def __init__(self, database: Database, holder: str) -> None:
        self._database = database
        self._holder = holder

    def start(self, stop: threading.Event) -> None:
        """Fold every second until `stop`. Does nothing on SQLite, where nothing is left to fold."""
        if not self._database.is_sqlite:
            threading.Thread(target=self.run, args=(stop,), daemon=True).start()

    def run(self, stop: threading.Event) -> None:
        """Fold every second while this process has the role, and ask for it now and then while another has it. At the
        end fold what is there and give the role away."""
        wait_s = random.uniform(0, FOLD_EVERY_S)
        while not stop.wait(wait_s):
            # Those without the role ask at different moments: a thousand workers may have started together.
            wait_s = FOLD_EVERY_S if self.tick() else random.uniform(ROLE_S / 2, ROLE_S)
        try:
            if self.tick():
                release_role(self._database, FOLDING, self._holder)
        except StoreError as error:
            log.info("another worker will fold after %.0f s, not at once: %s", ROLE_S, error)

    def tick(self) -> bool:
        """Fold, if this process has the role; returns whether it has."""
        try:
            if not acquire_role(self._database, FOLDING, self._holder, ROLE_S):
                return False
            fold(self._database)
        except StoreError as error:
            log.info("nothing folded: %s", error)  # the supervisor and the lanes report it
        return True
