"""Takes back what the dead have left behind. As many may run as like: each step is one fenced transaction."""

import logging

from jobs.store.database import Database
from jobs.store.leases import expire, expire_workers
from jobs.store.workers import dead_workers, retire

log = logging.getLogger(__name__)


def reap(database: Database) -> int:
    """Free the shards of dead workers and of silent ones; how many.

    A process of this machine that is gone is dead for certain, so nobody waits for its lease to run out.
    """
    dead = dead_workers(database)
    freed = expire_workers(database, dead) + expire(database)
    if dead:
        retire(database, dead)
    if freed:
        log.warning("took %d shards back from workers that died", freed)
    return freed
