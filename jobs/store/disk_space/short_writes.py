"""Long work in many short transactions, so that nobody else who writes waits long."""

import time
from collections.abc import Callable

from sqlalchemy import Connection

from jobs.store.database import Database

HOLD_S = 0.03  # of each transaction; the rest up to 0.1 s is for a busy disk
LEAST, FIRST, MOST = 16, 128, 5_000  # rows or pages of a transaction

Write = Callable[[Connection, int], int]  # writes at most so many rows or pages; how many it wrote


def write_in_turns(database: Database, write: Write, advance: Callable[[int], None]) -> None:
    """Call `write` in one transaction after the other until it writes nothing. `advance` is called with the number of
    rows or pages after each.

    SQLite has one writer at a time. How much a transaction is asked to write follows from how long the one before held
    the lock: pages that lie in memory are deleted many times as fast as those that are read from a disk. Then the lock
    is free for as long as it was held: a waiting writer of another process polls, and finds only a pause that is long
    enough. A server locks nothing but the rows that are deleted, so there every transaction is large: each one passes
    over the dead rows of those before.
    """
    amount = FIRST if database.is_sqlite else MOST
    while True:
        with database.writing() as connection:
            began = time.monotonic()  # after the wait for the lock
            written = write(connection, amount)
        held = time.monotonic() - began
        if not written:
            return
        advance(written)
        if database.is_sqlite:
            amount = int(min(max(amount * min(max(HOLD_S / held, 0.25), 2.0), LEAST), MOST))
            time.sleep(held)
