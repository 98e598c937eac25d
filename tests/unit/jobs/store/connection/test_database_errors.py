"""Which refusals of a database time may mend, and which want a person."""

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
        with_state("25006"),  # a transaction that may only read: a standby, or a primary in a failover
        with_state("25P03"),  # idle in a transaction for too long: this process was stopped
        with_state("53300"),  # too many connections
        with_state("55P03"),  # a lock that is not free
        with_state("57014"),  # a statement that somebody cancelled
        with_state("57P01"),  # shut down by an administrator
        with_state("57P02"),  # a crash of another session
        with_state("57P03"),  # starting up
        with_state("58030"),  # the server's disk
    ],
    ids=named,
)
def test_what_time_may_mend_is_worth_another_try(error: psycopg.Error) -> None:
    assert isinstance(explained(error), TransientError)


@pytest.mark.parametrize(
    "error",
    [
        psycopg.OperationalError(f'{CONNECTING}FATAL:  password authentication failed for user "me"'),
        psycopg.OperationalError(f'{CONNECTING}FATAL:  database "kvjobs" does not exist'),
        psycopg.OperationalError(f'{CONNECTING}FATAL:  no pg_hba.conf entry for host "10.0.0.1", SSL off'),
        psycopg.OperationalError(f"{CONNECTING}server does not support SSL, but SSL was required"),
        psycopg.OperationalError(f"{CONNECTING}SSL error: certificate verify failed"),
        psycopg.OperationalError(f'{CONNECTING}root certificate file "/etc/ca.pem" does not exist'),
        with_state("28P01"),  # a wrong password
        with_state("3D000"),  # an unknown database
        with_state("42501"),  # a role that may not
        with_state("42P01"),  # a table that is not there
    ],
    ids=named,
)
def test_what_only_a_person_can_mend_is_no_reason_to_wait(error: psycopg.Error) -> None:
    refusal = explained(error)

    assert type(refusal) is StoreError
    assert "postgresql+psycopg://me@db/kvjobs" in str(refusal)


def test_a_value_that_no_column_takes_is_refused_for_itself() -> None:
    for error in (psycopg.DataError("text fields cannot contain NUL"), with_state("23503"), with_state("22003")):
        assert isinstance(explained(error), ValueRefused)
