"""Errors of a user's query, in a sentence."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from jobs.errors import SpecError, StoreError
from jobs.store.report.query.time_limit import TimeLimit

STOPPED = ("interrupted", "statement timeout", "user request")
WOULD_WRITE = ("prohibited", "not authorized", "readonly", "read-only")


@contextmanager
def translated_query_errors(limit: TimeLimit) -> Iterator[None]:
    """Raises SpecError for an error of the query, StoreError where its time is over or the server is gone."""
    try:
        yield
    except Exception as error:
        if not (isinstance(error, sqlite3.Error | sqlite3.Warning) or type(error).__module__.startswith("psycopg")):
            raise
        message = (str(error).strip() or type(error).__name__).split("\n")[0]
        if any(words in message for words in STOPPED) and (limit.is_over() or "user request" not in message):
            raise StoreError(
                f"the query was stopped after {limit.seconds:g} seconds; make it smaller, or allow it more (--timeout)"
            ) from None
        if any(words in message for words in WOULD_WRITE):
            raise SpecError(f"a query may only read, and this one would do something else ({message})") from None
        if type(error).__name__ in ("AdminShutdown", "OperationalError") and not isinstance(error, sqlite3.Error):
            raise StoreError(f"the database gave no answer to the query: {message}") from None
        raise SpecError(f"the query cannot be answered: {message}") from None
