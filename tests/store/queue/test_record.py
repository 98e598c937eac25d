"""Recording: a batch as a whole, once, and only under the newest lease."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any

import psycopg
import pytest
from sqlalchemy import delete, event, func, insert, make_url, text

from jobs.dispatch.reaper import reap
from jobs.errors import StaleLease
from jobs.outcome import Failed, SegmentTranslation, StepTiming
from jobs.store.database import Database
from jobs.store.memory import learn, recall
from jobs.store.queue import deaths, leases
from jobs.store.queue.batches import MAX_TOKENS
from jobs.store.queue.deltas import fold
from jobs.store.queue.job_counters import lock_counters, wait_for_turn
from jobs.store.schema import result_tables, tables
from jobs.store.schema.clock import db_time
from jobs.store.schema.database_roles import grant_reader
from jobs.store.schema.results import as_stored
from jobs.store.schema.step_table import Step
from tests.databases import ON_POSTGRESQL, as_superuser
from tests.rows import AddWaitingJob, translated
from tests.store.leasing import counts, events, take, value, write


def test_a_recorded_shard_is_done_and_the_last_one_ends_the_job(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    job = add_waiting_job(documents=4, per_shard=2)

    for _ in range(2):
        write(database, take(database))

    assert value(database, tables.Job.state, tables.Job.id == job) == "done"
    row = counts(database, job)
    assert (row.succeeded, row.shards_open, row.estimated_done, row.segments, row.segments_reused) == (4, 0, 40, 8, 4)
    assert (row.source_tokens, row.target_tokens) == (20, 16)
    assert events(database) == ["leased", "recorded", "finished"] * 2


def test_a_batch_is_recorded_as_a_whole_and_the_next_lease_continues_behind_it(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    add_waiting_job(documents=6, per_shard=6, tokens=MAX_TOKENS // 2)
    work = take(database)
    assert [[d.position for d in batch] for batch in work.batches] == [[0, 1], [2, 3], [4, 5]]
    write(database, work, 0)
    assert json.loads(str(value(database, tables.Shard.in_flight))) == [2, 3]

    leases.release(database, work)
    again = take(database)

    assert again.epoch == work.epoch + 1
    assert [[d.position for d in batch] for batch in again.batches] == [[2, 3], [4, 5]]


def test_recording_twice_writes_once_and_counts_once(database: Database, add_waiting_job: AddWaitingJob) -> None:
    job = add_waiting_job(documents=3, per_shard=3)
    work = take(database)
    timing = StepTiming("decode", 0, 3, 3, 0, 0.1)

    for _ in range(2):  # as if the answer to the first COMMIT was lost
        write(database, work, timings=[timing])

    assert counts(database, job).succeeded == 3
    assert value(database, func.count(Step.id)) == 1
    assert value(database, func.count(result_tables.Translation.position)) == 3


def test_recording_a_middle_batch_twice_is_harmless_too(database: Database, add_waiting_job: AddWaitingJob) -> None:
    job = add_waiting_job(documents=4, per_shard=4, tokens=MAX_TOKENS // 2)
    work = take(database)
    timing = StepTiming("decode", 0, 3, 3, 0, 0.1)  # of which two would be two rows: steps have no key of their own

    for _ in range(2):
        write(database, work, 0, timings=[timing])
    assert value(database, func.count(Step.id)) == 1
    write(database, work, 1)

    assert counts(database, job).succeeded == 4
    assert value(database, tables.Job.state, tables.Job.id == job) == "done"


def test_a_result_that_is_there_stays_and_is_not_counted_again(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    job = add_waiting_job(documents=3, per_shard=3)
    work, table = take(database), result_tables.Translation
    there = {"job_id": job, "shard_id": 1, "epoch": 1, "worker_id": 1, "position": 1, "provider": "onnx"}
    with database.writing() as connection:
        connection.execute(insert(table).values(**as_stored(translated("first")), **there, finished_at=db_time()))

    write(database, work, outcomes=[translated("late") for _ in range(3)])

    texts = [value(database, table.text, table.position == position) for position in range(3)]
    assert texts == ["late", "first", "late"]
    assert counts(database, job).succeeded == 2


def test_a_worker_that_slept_past_its_lease_is_refused_and_the_refusal_is_logged(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    job = add_waiting_job(documents=3, per_shard=3)
    sleeper = take(database, lease_s=-1.0)
    assert deaths.expire(database) == 1
    successor = take(database, worker_id=2)
    write(database, successor, outcomes=[translated("the successor's")] * 3)

    with pytest.raises(StaleLease):
        write(database, sleeper, outcomes=[translated("the sleeper's")] * 3)

    assert counts(database, job).succeeded == 3
    assert (
        value(
            database,
            func.count(result_tables.Translation.position),
            result_tables.Translation.text == "the successor's",
        )
        == 3
    )
    assert events(database)[-1] == "stale_commit"


def test_a_lost_lease_is_refused_while_another_worker_computes_the_same_batch(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    add_waiting_job(documents=3, per_shard=3)
    sleeper = take(database, lease_s=-1.0)
    deaths.expire(database)
    successor = take(database)
    assert successor.batches == sleeper.batches

    with pytest.raises(StaleLease):
        write(database, sleeper)

    assert value(database, func.count(result_tables.Translation.position)) == 0
    write(database, successor)


def test_a_lost_lease_is_refused_even_while_no_worker_has_leased_its_shard(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    add_waiting_job(documents=3, per_shard=3)
    sleeper = take(database, lease_s=-1.0)
    deaths.expire(database)

    with pytest.raises(StaleLease):
        write(database, sleeper)
    leases.release(database, sleeper)  # nor may it release a shard that it no longer holds

    assert value(database, tables.Shard.state) == "ready"
    assert "released" not in events(database)


def test_memory_entries_are_written_with_the_results_and_the_first_entry_is_kept(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    add_waiting_job(documents=2, per_shard=1)
    entry = SegmentTranslation(("你好",), (-0.5,), -1.5, 3, 2)

    write(database, take(database), learned={b"k": entry})
    write(database, take(database), learned={b"k": SegmentTranslation(("再见",), (-0.1,), -0.1, 1, 1)})

    assert recall(database, [b"k", b"unknown"]) == {b"k": entry}


@ON_POSTGRESQL
def test_a_batch_within_a_shard_waits_for_no_other_recorder_of_its_job(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    job = add_waiting_job(documents=4, per_shard=4, tokens=MAX_TOKENS // 2)
    work = take(database)
    entry = SegmentTranslation(("你好",), (-0.5,), -1.5, 3, 2)

    with database.writing() as other:
        wait_for_turn(other, job)
        lock_counters(other, job)
        with closing(Database.open(url_of(database), busy_timeout_s=2.0)) as worker:
            write(worker, work, 0, learned={b"k": entry}, timings=[StepTiming("decode", 0, 3, 3, 0, 0.1)])

    assert counts(database, job).succeeded == 2


@ON_POSTGRESQL
def test_a_batch_that_waits_for_an_entry_of_the_memory_keeps_nobody_from_the_counters(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    job = add_waiting_job(documents=2, per_shard=2)
    work = take(database)
    entry = SegmentTranslation(("你好",), (-0.5,), -1.5, 3, 2)
    outcomes = [translated(), Failed("engine-error", "the model call failed")]
    recorder = threading.Thread(
        target=lambda: write(database, work, learned={b"k": entry}, outcomes=outcomes), daemon=True
    )

    with database.writing() as connection:
        learn(connection, {b"k": entry})
        recorder.start()
        until_one_waits(database)
        connection.execute(text("SET LOCAL lock_timeout = '5s'"))
        wait_for_turn(connection, job)
        lock_counters(connection, job)  # PostgreSQL ends one of the two if they wait for each other
    recorder.join(30.0)

    row = counts(database, job)
    assert (row.succeeded, row.failed, row.shards_open) == (1, 1, 0)


@ON_POSTGRESQL
def test_who_waits_for_a_turn_keeps_nobody_from_the_counters(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    job = add_waiting_job(documents=2, per_shard=2)
    outcomes = [translated(), Failed("engine-error", "the model call failed")]
    work = take(database)
    recorder = threading.Thread(target=lambda: write(database, work, outcomes=outcomes), daemon=True)

    with database.writing() as before:
        wait_for_turn(before, job)
        recorder.start()
        until_one_waits(database)
        with database.writing() as other:
            other.execute(text("SET LOCAL lock_timeout = '5s'"))
            lock_counters(other, job)
        assert counts(database, job).succeeded == 0
    recorder.join(30.0)

    assert counts(database, job).succeeded == 1


def test_a_job_that_an_older_version_made_during_an_upgrade_needs_no_turn(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    job = add_waiting_job(documents=2, per_shard=2)
    with database.writing() as connection:
        connection.execute(delete(tables.JobTurn))

    write(database, take(database), outcomes=[translated(), Failed("engine-error", "the model call failed")])

    row = counts(database, job)
    assert (row.succeeded, row.failed, row.shards_open) == (1, 1, 0)


@ON_POSTGRESQL
def test_a_role_that_may_only_read_keeps_nobody_from_recording(
    database: Database, add_waiting_job: AddWaitingJob, reader: psycopg.Connection[Any]
) -> None:
    job = add_waiting_job(documents=4, per_shard=2)
    works = [take(database), take(database)]
    outcomes = [translated(), Failed("engine-error", "the model call failed")]
    with database.writing() as connection:
        wait_for_turn(connection, job)
        by_number = "SELECT (classid::bigint << 32) | objid::bigint FROM pg_locks WHERE locktype = 'advisory'"
        numbers = reader.execute(by_number).fetchall()
    for (number,) in numbers:
        reader.execute("SELECT pg_advisory_lock(%s)", (number,))
    for table in tables.Base.metadata.tables:
        rows = [f"SELECT FROM {table} FOR {rights}" for rights in ("UPDATE", "NO KEY UPDATE", "SHARE", "KEY SHARE")]
        modes = ("ACCESS SHARE", "ROW SHARE", "ROW EXCLUSIVE", "SHARE UPDATE EXCLUSIVE", "SHARE", "EXCLUSIVE")
        for statement in (*rows, *(f"LOCK TABLE {table} IN {mode} MODE" for mode in modes)):
            with suppress(psycopg.errors.InsufficientPrivilege), reader.transaction():
                reader.execute(statement.encode())

    with closing(Database.open(url_of(database), busy_timeout_s=2.0, silence_s=60.0)) as worker:
        for work in works:
            write(worker, work, outcomes=outcomes)
            fold(worker)

    row = counts(database, job)
    assert (row.succeeded, row.failed, row.shards_open) == (2, 2, 0)


@ON_POSTGRESQL
def test_no_lock_by_number_is_taken_on_the_way_of_a_batch(database: Database, add_waiting_job: AddWaitingJob) -> None:
    """Whoever may connect may take such a lock too, in a transaction that only reads, and keep it."""
    add_waiting_job(documents=6, per_shard=2)
    statements: list[str] = []

    def note(*given: Any) -> None:
        statements.append(given[2])

    event.listen(database.engine, "before_cursor_execute", note)
    for outcome in (translated(), Failed("engine-error", "the model call failed")):
        work = take(database)
        with database.writing() as connection:
            leases.renew(connection, 60.0, [work])
        write(database, work, outcomes=[outcome] * 2)
        fold(database)
    leases.release(database, take(database))
    take(database, lease_s=-1.0)
    reap(database)
    event.remove(database.engine, "before_cursor_execute", note)

    assert any("FOR UPDATE" in statement for statement in statements)
    assert not [statement for statement in statements if "advisory" in statement]


@pytest.fixture
def reader(database: Database) -> Iterator[psycopg.Connection[Any]]:
    """A transaction of a role that may read all tables and do nothing else."""
    name = f"{database.engine.url.username}_reader"
    with as_superuser() as server:
        server.exec_driver_sql(f"CREATE ROLE {name} LOGIN PASSWORD '{name}'")
    with database.writing() as connection:
        grant_reader(connection, name, None)
    url = make_url(url_of(database)).set(drivername="postgresql", username=name, password=name)
    with psycopg.connect(url.render_as_string(hide_password=False)) as connection:
        yield connection
    with as_superuser(database.engine.url.database) as server:
        server.exec_driver_sql(f"DROP OWNED BY {name}")
        server.exec_driver_sql(f"DROP ROLE {name}")


def url_of(database: Database) -> str:
    return database.engine.url.render_as_string(hide_password=False)


def until_one_waits(database: Database) -> None:
    """Return when a session of this database waits for a lock; after a while also where none does."""
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    deadline = time.monotonic() + 30.0
    while time.monotonic() < deadline:
        with database.reading() as connection:
            if connection.execute(text(waiting)).scalar():
                return
        time.sleep(0.01)
