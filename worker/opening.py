"""Opening the database, however long it is away: a worker that starts before its database waits for it."""

import logging
import time
from collections.abc import Callable

from jobs.errors import TransientError
from jobs.settings import Settings
from jobs.store.database import Database

log = logging.getLogger(__name__)

SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 10.0
SAY_EVERY_S = 60.0


def open_patiently(settings: Settings, pause: Callable[[float], bool]) -> Database | None:
    """The database, as soon as it answers. `pause` waits so many seconds and says whether to give up; then None.

    Raises SpecError or StoreError for what waiting does not mend.
    """
    pause_s, said_at = SHORTEST_PAUSE_S, float("-inf")
    while True:
        try:
            return Database.open(settings.database_url, busy_timeout_s=settings.busy_timeout_s)
        except TransientError as error:
            if time.monotonic() - said_at > SAY_EVERY_S:
                log.warning("%s; waiting for it", error)
                said_at = time.monotonic()
        if pause(pause_s):
            return None
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
