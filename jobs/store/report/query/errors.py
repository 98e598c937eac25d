"""Errors of a user's query, in a sentence."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from jobs.errors import SpecError, StoreError, nearest
from jobs.store.report.query.limits import ROW_TOO_LARGE, TOO_MUCH_MEMORY, VALUE_TOO_LARGE, TimeLimit
from jobs.store.schema.views import VIEW_COLUMNS

# The last: the driver does not say that a FETCH was stopped when all its rows had been sent.
STOPPED = ("interrupted", "statement timeout", "user request", "transaction is aborted")
LARGE_ROW = "kvjobs: large row"  # begins the text that PostgreSQL is made to refuse
# Beyond its limit of a gigabyte, PostgreSQL refuses by itself.
TOO_LARGE = {LARGE_ROW: ROW_TOO_LARGE, "memory alloc request": ROW_TOO_LARGE, "too big": VALUE_TOO_LARGE}
WOULD_WRITE = ("prohibited", "not authorized", "readonly", "read-only")


@contextmanager
def translated_query_errors(limit: TimeLimit, sql: str = "") -> Iterator[None]:
    """Raises SpecError for an error of the query, StoreError where its time is over or the server is gone."""
    try:
        yield
    except MemoryError:
        raise SpecError(TOO_MUCH_MEMORY) from None
    except Exception as error:
        if not (isinstance(error, sqlite3.Error | sqlite3.Warning) or type(error).__module__.startswith("psycopg")):
            raise
        message = (str(error).strip() or type(error).__name__).split("\n")[0]
        message = _PLACE.sub("", message)  # counted from the word PREPARE, which nobody typed
        if any(words in message for words in STOPPED) and (limit.is_over() or "user request" not in message):
            raise StoreError(
                f"the query was stopped after {limit.seconds:g} seconds; make it smaller, or allow it more (--timeout)"
            ) from None
        if too_large := next((sentence for words, sentence in TOO_LARGE.items() if words in message), ""):
            raise SpecError(too_large) from None
        if any(words in message for words in WOULD_WRITE):
            raise SpecError(f"a query may only read, and this one would do something else ({message})") from None
        if type(error).__name__ in ("AdminShutdown", "OperationalError") and not isinstance(error, sqlite3.Error):
            raise StoreError(f"the database gave no answer to the query: {message}") from None
        raise SpecError(f"the query cannot be answered: {message}{_columns_there(message, sql)}") from None


def _columns_there(message: str, sql: str) -> str:
    """The columns of the query's views, for a query that names a column that none of them has."""
    found = _NO_COLUMN.search(message)
    if found is None:
        return ""
    name = next(filter(None, found.groups())).rpartition(".")[2]
    views = [view for view in VIEW_COLUMNS if re.search(rf"\b{view}\b", sql, re.IGNORECASE)]
    near = nearest(name, [column for view in views for column in VIEW_COLUMNS[view].columns])
    meant = [f"did you mean {near}?"] if near else []
    have = [f"{view} has {', '.join(VIEW_COLUMNS[view].columns)}" for view in views]
    return f"; {' '.join([*meant, '; '.join(have)])}" if meant or have else ""


_PLACE = re.compile(r" at character \d+$")
_NO_COLUMN = re.compile(r'no such column: (\S+)|column "?([^" ]+)"? does not exist')
