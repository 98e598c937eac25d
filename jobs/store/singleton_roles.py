"""Posts: work that one process of the fleet does for all. Whoever holds a post keeps it by saying so in time.

A post is a lease without an epoch, so what its holder does must be harmless when two do it: a post spares work, it
protects nothing.
"""

import os
import socket
import uuid

from sqlalchemy import delete, func, or_, select, update

from jobs.store.connection.dialect import insert_or_ignore
from jobs.store.database import Database
from jobs.store.schema.clock import db_time
from jobs.store.schema.tables import Post

DISPATCHER = "dispatcher"  # sends hints to the broker
REAPER = "reaper"  # takes back the leases that ran out


def new_holder() -> str:
    """A name for this process that no other has."""
    return f"{socket.gethostname()}/{os.getpid()}/{uuid.uuid4().hex[:8]}"


def hold(database: Database, name: str, holder: str, seconds: float) -> bool:
    """Take the post or keep it; whether it is ours for the next half of `seconds` at least.

    Nothing is written where another holds it, nor by its holder in the first half of its time.
    """
    with database.reading() as connection:
        post = connection.execute(
            select(
                Post.holder,
                (Post.held_until > db_time()).label("is_held"),
                (Post.held_until > db_time(seconds / 2)).label("for_long"),
            ).where(Post.name == name)
        ).one_or_none()
    if post is not None and post.is_held and (post.holder != holder or post.for_long):
        return bool(post.holder == holder)
    with database.writing() as connection:
        free = or_(Post.holder == holder, Post.held_until <= db_time())
        taken = connection.execute(
            update(Post).where(Post.name == name, free).values(holder=holder, held_until=db_time(seconds))
        )
        if taken.rowcount:
            return True
        made = connection.execute(
            insert_or_ignore(connection, Post).values(name=name, holder=holder, held_until=db_time(seconds))
        )
        return bool(made.rowcount)


def leave(database: Database, name: str, holder: str) -> None:
    """Give the post up, so that the next one need not wait. Nothing if it is not ours."""
    with database.writing() as connection:
        connection.execute(delete(Post).where(Post.name == name, Post.holder == holder))


def holder_of(database: Database, name: str) -> str | None:
    """Who holds the post now."""
    with database.reading() as connection:
        held = select(func.max(Post.holder)).where(Post.name == name, Post.held_until > db_time())
        return connection.execute(held).scalar_one()
