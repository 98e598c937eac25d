"""Which database errors are worth a retry, and which only a person can solve."""

import psycopg
import psycopg.errors
import pytest
from sqlalchemy.exc import DBAPIError

from jobs.errors import StoreError, TransientError, ValueRefused
from jobs.store.connection.database_errors import explain

URL = "postgresql+psycopg://me@db/kvjobs"
CONNECTING = 'connection failed: connection to server at "10.0.0.7", port 5432 failed: '


def explained(error: psycopg.Error) -> StoreError:
    wrapped = DBAPIError.instance("SELECT 1", None, error, psycopg.Error)
    assert isinstance(wrapped, DBAPIError)
    return explain(wrapped, URL)


def with_state(sqlstate: str) -> psycopg.Error:
    return psycopg.errors.lookup(sqlstate)("the server's words")


def named(error: psycopg.Error) -> str:
    return error.sqlstate or str(error).removeprefix(CONNECTING)


@pytest.mark.parametrize(
    "error",
    [
        psycopg.errors.ConnectionTimeout("connection timeout expired"),
        psycopg.OperationalError(f"{CONNECTING}SSL SYSCALL error: EOF detected"),
        psycopg.OperationalError(f"{CONNECTING}SSL error: unexpected eof while reading"),
        psycopg.OperationalError(f"{CONNECTING}FATAL:  the database system is starting up"),
        psycopg.OperationalError(f"{CONNECTING}FATAL:  sorry, too many clients already"),
        psycopg.OperationalError("failed to resolve host 'db': [Errno -3] Temporary failure in name resolution"),
        with_state("25006"),  # read-only transaction: a standby, or a primary during a failover
        with_state("25P03"),  # idle in a transaction for too long: this process was suspended
        with_state("53300"),  # too many connections
        with_state("55P03"),  # a lock is not available
        with_state("57014"),  # a statement was cancelled
        with_state("57P01"),  # shut down by an administrator
        with_state("57P02"),  # a crash of another session
        with_state("57P03"),  # starting up
        with_state("58030"),  # I/O error of the server
    ],
    ids=named,
)
def test_a_temporary_error_is_retried(error: psycopg.Error) -> None:
    assert isinstance(explained(error), TransientError)


@pytest.mark.parametrize(
    "error",
    [
        psycopg.OperationalError(f'{CONNECTING}FATAL:  password authentication failed for user "me"'),
        psycopg.OperationalError(f'{CONNECTING}FATAL:  database "kvjobs" does not exist'),
        psycopg.OperationalError(f"{CONNECTING}FATAL:  no such database: kvjobs"),  # PgBouncer
        psycopg.OperationalError(f'{CONNECTING}FATAL:  no pg_hba.conf entry for host "10.0.0.1", SSL off'),
        psycopg.OperationalError(f"{CONNECTING}server does not support SSL, but SSL was required"),
        psycopg.OperationalError(f"{CONNECTING}SSL error: certificate verify failed"),
        psycopg.OperationalError(f'{CONNECTING}root certificate file "/etc/ca.pem" does not exist'),
        with_state("28P01"),  # a wrong password
        with_state("3D000"),  # an unknown database
        with_state("42501"),  # a role without the privilege
        with_state("42P01"),  # an unknown table
    ],
    ids=named,
)
def test_an_error_that_only_a_person_can_solve_is_not_retried(error: psycopg.Error) -> None:
    refusal = explained(error)

    assert type(refusal) is StoreError
    assert "postgresql+psycopg://me@db/kvjobs" in str(refusal)


def test_a_value_that_no_column_can_store_is_an_error_of_that_value() -> None:
    for error in (psycopg.DataError("text fields cannot contain NUL"), with_state("23503"), with_state("22003")):
        assert isinstance(explained(error), ValueRefused)
