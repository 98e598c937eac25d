"""Roles that one process of the fleet performs for all, held for a limited time and renewed by the holder.

A role is a lease without a fence: two processes that hold it at once must do no harm. It saves work and protects
nothing.
"""

import os
import socket
import uuid

from sqlalchemy import delete, or_, select, update

from jobs.store.connection.dialect import insert_or_ignore
from jobs.store.database import Database
from jobs.store.schema.clock import db_time
from jobs.store.schema.tables import SingletonRole

DISPATCHER = "dispatcher"  # sends hints to the broker
FOLDING = "folding"  # folds deltas into sums
REAPER = "reaper"  # takes back the leases that ran out


def new_holder() -> str:
    """An id for this process as a holder of roles; no other process has it."""
    return f"{socket.gethostname()}/{os.getpid()}/{uuid.uuid4().hex[:8]}"


def acquire_role(database: Database, name: str, holder: str, seconds: float) -> bool:
    """Acquire or renew a role; returns whether `holder` has it for at least half of `seconds` from now on.

    Nothing is written where another process holds the role, or where `holder` has more than half of its time left.
    """
    with database.reading() as connection:
        role = connection.execute(
            select(
                SingletonRole.holder,
                (SingletonRole.held_until > db_time()).label("is_held"),
                (SingletonRole.held_until > db_time(seconds / 2)).label("for_long"),
            ).where(SingletonRole.name == name)
        ).one_or_none()
    if role is not None and role.is_held and (role.holder != holder or role.for_long):
        return bool(role.holder == holder)
    with database.writing() as connection:
        is_free = or_(SingletonRole.holder == holder, SingletonRole.held_until <= db_time())
        renewed = connection.execute(
            update(SingletonRole)
            .where(SingletonRole.name == name, is_free)
            .values(holder=holder, held_until=db_time(seconds))
        )
        if renewed.rowcount:
            return True
        inserted = connection.execute(
            insert_or_ignore(connection, SingletonRole).values(name=name, holder=holder, held_until=db_time(seconds))
        )
        return bool(inserted.rowcount)


def release_role(database: Database, name: str, holder: str) -> None:
    """Let another process have the role at once. Does nothing where `holder` does not have it."""
    with database.writing() as connection:
        connection.execute(delete(SingletonRole).where(SingletonRole.name == name, SingletonRole.holder == holder))
