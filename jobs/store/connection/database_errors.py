"""The errors of a database turned into errors of kvjobs: what went wrong, where, and what to do."""

from pathlib import Path

from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from jobs.errors import StoreError, TransientError, ValueRefused
from jobs.store.connection.lock_holder import lock_holder, words_for

# SQLSTATE classes and codes that may pass by themselves (postgresql.org/docs/current/errcodes-appendix.html).
CONNECTION_LOST = ("08", "57P", "25P03")  # connection exceptions; the server ended the session, or is starting
NO_RESOURCES = ("53",)  # too many connections, out of memory, disk full
CONFLICT = ("40", "55P03")  # a deadlock or a serialization failure; a lock that is not free
STOPPED = ("57014", "58")  # the statement was cancelled; an error of the server's disk or system
READ_ONLY = "25006"  # a standby, or a server in the middle of a failover

# Errors before a session exists have no SQLSTATE in libpq, only a text; those with these words do not pass by
# themselves. A TLS handshake that is cut off ("SSL error: unexpected eof") may, so it is not among them.
PERMANENT = (
    "authentication failed",
    "does not exist",
    "no such database",  # of PgBouncer
    "no pg_hba.conf entry",
    "no password supplied",
    "SSL was required",
    "certificate",
)


def explain(error: DBAPIError | PoolTimeout, url: str, file: Path | None = None) -> StoreError:
    """TransientError where waiting may help, ValueRefused for values that no retry could write, else StoreError.
    `file`: of a SQLite database."""
    if isinstance(error, PoolTimeout):
        return TransientError(f"all connections of this program to the database {url} are in use; wait and try again")
    module = type(error.orig).__module__
    explained = _sqlite(str(error.orig), url, file) if module.startswith("sqlite3") else _postgresql(error, url)
    return ValueRefused(str(explained)) if isinstance(error, IntegrityError | DataError) else explained


def locked_error(url: str, file: Path | None) -> TransientError:
    """Another program is writing to the SQLite file."""
    holder = None if file is None else lock_holder(file)
    whose = "another program; close it, or wait and try again" if holder is None else words_for(holder)
    return TransientError(f"the database {url} is locked by {whose}")


def _sqlite(text: str, url: str, file: Path | None) -> StoreError:
    if "database is locked" in text:
        return locked_error(url, file)
    if "disk is full" in text:
        return TransientError(f"the disk of the database {url} is full; free some space there, then try again")
    if "disk I/O error" in text:
        return TransientError(f"the disk of the database {url} reports an error; check the disk (is it full?)")
    if "not a database" in text:
        return StoreError(f"{url} is not a database; name another file, or move this one away")
    if "readonly" in text:
        return StoreError(f"{url} may only be read; run this as a user who may write the file and its folder")
    if "unable to open" in text:
        return StoreError(
            f"{url} cannot be opened ({text}); check the permissions of the file and its folder, or set KVJOBS_HOME"
        )
    if "malformed" in text:
        return StoreError(f"{url} is damaged ({text}); restore it from a copy")
    return StoreError(f"the database {url} refuses: {text.strip()}")


def _postgresql(error: DBAPIError, url: str) -> StoreError:
    message = " ".join(str(error.orig).split())
    state = getattr(error.orig, "sqlstate", None) or ""
    if state.startswith(CONFLICT):
        return TransientError(f"two transactions on {url} blocked each other; try again ({message})")
    if state.startswith(NO_RESOURCES):
        return TransientError(
            f"the database {url} has no room ({message}); free disk space, memory or connections, then try again"
        )
    if state.startswith(STOPPED):
        return TransientError(f"the database {url} stopped a statement before its end ({message}); try again")
    if state == READ_ONLY:
        return TransientError(f"the database {url} takes no writes now ({message}); is it a standby, or in a failover?")
    if error.connection_invalidated or state.startswith(CONNECTION_LOST):
        return TransientError(f"the connection to the database {url} was lost ({message})")
    if isinstance(error, OperationalError) and not state:
        if any(words in message for words in PERMANENT):
            return StoreError(f"the database {url} refused the login: {_server_words(message)}; check the address")
        return TransientError(f"the database {url} does not answer ({_server_words(message)}); is it running?")
    if state == "42501":  # insufficient privilege
        return StoreError(f"the user of the database {url} lacks a permission ({message}); connect as one who has it")
    return StoreError(f"the database {url} refuses: {message}")


def _server_words(message: str) -> str:
    """The text without libpq's prefix `connection to server at ... failed:`."""
    return message.split("failed: ", 1)[-1]
