"""Bytes that are made while they are sent: in threads of their own, and not for a visitor who went away."""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

from anyio import CapacityLimiter, from_thread, to_thread
from sqlalchemy import Connection

from jobs.store.database import Database

CHUNK = 64 * 1024  # bytes that are sent at a time
# Threads that make bytes: fewer than there are for pages, so that those are answered whatever is downloaded. Who reads
# slowly holds none.
makers = CapacityLimiter(8)


class WatchedDatabase(Database):
    """The same database, for a thread that works for a visitor: it reads no more once that one has gone away."""

    def __init__(self, database: Database) -> None:
        self.__dict__.update(database.__dict__)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        from_thread.check_cancelled()
        with super().reading() as connection:
            yield connection


async def made_in_threads(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    """The pieces, joined to chunks; the next one is made when the last one was sent."""
    chunks = joined(pieces)
    while (chunk := await to_thread.run_sync(next, chunks, None, limiter=makers)) is not None:
        yield chunk


def joined(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The same bytes in larger pieces: each is handed over to another thread."""
    parts, size = list[bytes](), 0
    for piece in pieces:
        parts.append(piece)
        size += len(piece)
        if size >= CHUNK:
            yield b"".join(parts)
            parts, size = [], 0
    yield b"".join(parts)
