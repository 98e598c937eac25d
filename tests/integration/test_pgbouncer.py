"""kvjobs through a real PgBouncer in transaction mode, where all clients share one session of the server: what one
leaves in its session, another finds."""

import json
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any

import psycopg
import pytest
from sqlalchemy import text

from jobs.errors import SpecError, StoreError, TransientError
from jobs.store.database import Database
from jobs.store.queue import leases
from jobs.store.queue.deltas import count_deltas, fold
from jobs.store.report.query.postgresql import refuse_other_functions
from jobs.store.report.query.query import run_query
from jobs.store.schema.migrate import differences, downgrade, upgrade
from jobs.store.worker_registry import WorkerStats, record_heartbeat
from tests.databases import migrated, own_database
from tests.end_to_end.conftest import Bulletins
from tests.faults.servers import PgBouncer
from tests.integration.conftest import Fleet
from tests.rows import insert_waiting_job
from tests.store.leasing import contradictory, counts, take, write

TIMES = 8  # psycopg prepares a statement at its sixth use


@pytest.fixture
def server() -> Iterator[str]:
    """The address of an empty database without a pooler."""
    with own_database() as url:
        yield url


@pytest.fixture
def url(server: str) -> Iterator[str]:
    """The address of the same database through a pooler, whose clients share one session."""
    with PgBouncer(server, sessions=1) as pooler:
        yield pooler.url


@pytest.fixture
def worker(url: str) -> Iterator[Database]:
    """The database as a worker opens it."""
    migrated(url)
    with closing(Database.open(url, busy_timeout_s=0.2, silence_s=60.0)) as database:
        yield database


def test_what_two_clients_send_again_and_again_is_prepared_by_neither(url: str) -> None:
    with closing(Database.connect(url)) as first, closing(Database.connect(url)) as second:
        for _ in range(TIMES):
            for database in (first, second):
                with database.reading() as connection:
                    assert connection.execute(text("SELECT 1 + :one"), {"one": 1}).scalar_one() == 2


def test_the_time_limits_of_a_worker_hold_in_each_of_its_transactions_and_in_no_other(
    url: str, worker: Database, server: str
) -> None:
    limits = text("SELECT current_setting('lock_timeout'), current_setting('idle_in_transaction_session_timeout')")
    with closing(Database.connect(url)) as command:
        for _ in range(2):
            with worker.writing() as connection:
                assert tuple(connection.execute(limits).one()) == ("200ms", "1min")
            with worker.reading() as connection:
                assert tuple(connection.execute(limits).one()) == ("200ms", "1min")
            with command.writing() as connection:
                assert tuple(connection.execute(limits).one()) == ("0", "0")
    with closing(Database.connect(server)) as direct, direct.writing() as other:
        other.execute(text("LOCK TABLE jobs"))
        with pytest.raises(TransientError), worker.writing() as connection:
            connection.execute(text("DELETE FROM jobs"))


def test_migrations_run_through_it(url: str) -> None:
    with closing(Database.connect(url)) as database:
        for migrate in (upgrade, downgrade, upgrade, upgrade):
            migrate(database.engine)
        assert differences(database.engine) == []


def test_leases_heartbeats_records_and_folding_work_through_it(worker: Database) -> None:
    job = insert_waiting_job(worker, documents=4, per_shard=2)
    works = [take(worker), take(worker)]

    renewed, _asked = record_heartbeat(worker, 1, WorkerStats(), 60.0, works)
    assert len(renewed.tokens) == 2
    leases.release(worker, works.pop())
    while works:
        for index in range(len(works[-1].batches)):
            write(worker, works[-1], index)
        works.pop()
        fold(worker)
        if (work := leases.lease(worker, 1, 0, 60.0)) is not None:
            works.append(work)

    with worker.reading() as connection:
        assert count_deltas(connection) == 0
    assert counts(worker, job).succeeded == 4
    assert contradictory(worker, job) == []


def test_a_query_may_only_read_and_leaves_nothing_behind(url: str, worker: Database) -> None:
    insert_waiting_job(worker, documents=2)
    with closing(Database.connect(url)) as command:
        for database in (worker, command) * 2:
            with run_query(database, "select count(*) from v_documents", {}, 5) as answer:
                assert list(answer.rows) == [(2,)]
            with run_query(database, "explain select 1", {}, 5) as answer:
                assert "Result" in str(list(answer.rows))
            with pytest.raises(SpecError, match="may only"), run_query(database, "select pg_advisory_lock(1)", {}, 5):
                pass
            with suppress(SpecError), run_query(database, "select 1 / 0", {}, 5) as answer:
                list(answer.rows)
    endless = "select md5(i::text) from generate_series(1, 100000000) i"
    with pytest.raises(StoreError, match=r"0\.3 seconds"), run_query(worker, endless, {}, 0.3) as answer:
        list(answer.rows)


def test_a_query_is_one_statement_where_none_is_prepared(worker: Database) -> None:
    """Else the second could end the transaction that only reads."""
    with closing(worker.engine.raw_connection()) as pooled:
        driver: psycopg.Connection[Any] = pooled.driver_connection  # type: ignore[assignment]  # psycopg's
        with pytest.raises(psycopg.errors.SyntaxError, match="multiple commands"):
            refuse_other_functions(driver, b"SELECT 1; SELECT 2", {})


def test_commands_and_a_worker_with_a_broker_work_through_it(
    url: str, fleet: Fleet, bulletins: Bulletins, monkeypatch: pytest.MonkeyPatch
) -> None:
    """(Workers without a broker: tests/faults, pgbouncer-killed.)"""
    monkeypatch.setenv("KVJOBS_DATABASE", url)

    def kvjobs(*arguments: object) -> str:
        done = fleet.kvjobs(*arguments)
        assert done.exit_code == 0, done.err
        return done.out

    kvjobs("db", "upgrade")
    fleet.machine.start("worker")
    kvjobs("submit", bulletins(30), "--wait")

    assert len(kvjobs("export", "1").splitlines()) == 30
    assert kvjobs("db", "check", "1") == "No problem found.\n"
    found = kvjobs("query", "select state, succeeded from v_jobs", "--json")
    assert json.loads(found) == [{"state": "done", "succeeded": 30}]
    kvjobs("db", "prune", "1", "--yes")
