"""Connecting to the database, however long it is unreachable: a worker that starts before its database waits."""

from collections.abc import Callable

from jobs.dispatch.database_outage import DatabaseOutage
from jobs.errors import StoreError, TransientError
from jobs.settings import Settings
from jobs.store.database import Database

SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 10.0


def connect_with_retry(settings: Settings, pause: Callable[[float], bool], *, has_run: bool = False) -> Database | None:
    """Connect as soon as the database answers. `pause` waits some seconds and returns whether to give up; then None.

    Raises SpecError, and StoreError for errors that waiting cannot resolve. With `has_run`, which says that this worker
    has used the database before, no StoreError is final: the address is right, and the database may return.
    """
    pause_s, outage = SHORTEST_PAUSE_S, DatabaseOutage()
    while True:
        try:
            database = Database.open(
                settings.database_url, busy_timeout_s=settings.busy_timeout_s, silence_s=settings.lease_s
            )
        except StoreError as error:
            if not (has_run or isinstance(error, TransientError)):
                raise
            outage.met(error)
        else:
            outage.over()
            return database
        if pause(pause_s):
            return None
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
