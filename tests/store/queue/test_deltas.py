"""Counters and rollups are what was folded and what was not, at every moment."""

import threading
from contextlib import closing
from typing import Any

import pytest
from sqlalchemy import select, text

from jobs.dispatch.delta_folding import DeltaFolding
from jobs.outcome import Failed, StepTiming
from jobs.store.database import Database
from jobs.store.disk_space.prune import prune_jobs
from jobs.store.jobs import cancel, retry
from jobs.store.queue import leases
from jobs.store.queue.batches import MAX_TOKENS
from jobs.store.queue.deltas import count_deltas, fold
from jobs.store.report.job_summary import find_job
from jobs.store.report.recount.consistency_check import find_contradictions
from jobs.store.schema.current_sums import ALL, current, view_of
from jobs.store.schema.rollup_tables import StepSums
from jobs.store.schema.tables import JobCounts
from tests.databases import ON_POSTGRESQL
from tests.rows import AddWaitingJob, translated
from tests.store.leasing import take, write

pytestmark = ON_POSTGRESQL
TIMINGS = [StepTiming("encode", 0, 2, 20, 0, 0.1), *(StepTiming("decode", n, 2, 2, 31 + n, 0.3) for n in range(3))]


@pytest.fixture
def job(database: Database, add_waiting_job: AddWaitingJob) -> int:
    """Four batches of a document in two shards; two are recorded, the second with a failure."""
    job_id = add_waiting_job(documents=4, per_shard=2, tokens=MAX_TOKENS)
    work = take(database)
    write(database, work, 0, timings=TIMINGS)
    write(database, work, 1, outcomes=[Failed("engine-error", "it broke")], timings=TIMINGS)
    return job_id


def number(database: Database, sql: str = "SELECT count(*) FROM deltas") -> Any:
    with database.reading() as connection:
        return connection.execute(text(sql)).scalar_one()


def sums(database: Database) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every current view."""
    with database.reading() as connection:
        return {
            view_of(table): sorted(map(tuple, connection.execute(text(f"SELECT * FROM {view_of(table)}"))), key=str)
            for table in ALL
        }


def test_folding_changes_no_sum_that_is_read(database: Database, job: int) -> None:
    before = sums(database)
    assert number(database, "SELECT succeeded FROM job_counts") == 0

    assert (fold(database), fold(database)) == (3, 0), "two batches and the end of their shard"

    assert sums(database) == before
    assert number(database, "SELECT succeeded FROM job_counts") == 1
    with database.reading() as connection:
        tables = [tuple(row) for row in connection.execute(select(StepSums.__table__).order_by(StepSums.step))]
        views = [row for row in before["current_step_sums"] if row[0] == job]
    assert tables == views


def test_before_and_behind_folding_a_recount_finds_nothing_wrong(database: Database, job: int) -> None:
    for _ in range(2):
        with database.reading() as connection:
            assert list(find_contradictions(connection, job)) == []
            assert find_job(connection, str(job)).failed == 1
        fold(database)


def test_the_end_of_a_job_folds_what_is_left_of_it(database: Database, job: int) -> None:
    work = take(database)
    write(database, work, 0, timings=TIMINGS)
    write(database, work, 1, timings=TIMINGS)

    assert number(database) == 0
    assert number(database, "SELECT succeeded FROM job_counts") == 3
    assert number(database, "SELECT sum(calls) FROM step_sums") == 12


def test_a_retry_forgets_failures_that_were_not_folded_yet(database: Database, job: int) -> None:
    assert retry(database, job) == 1

    with database.reading() as connection:
        assert list(find_contradictions(connection, job)) == []
    assert number(database, "SELECT count(*) FROM current_failure_counts WHERE documents > 0") == 0


def test_a_pruned_job_leaves_no_delta(database: Database, job: int) -> None:
    work = take(database)
    cancel(database, job)
    write(database, work, 0)  # the cancel ends the job once this shard is released
    leases.release(database, work)

    prune_jobs(database, [job])

    assert number(database) == 0


def test_a_process_without_the_role_folds_nothing_until_the_other_ends(database: Database, job: int) -> None:
    first, second = DeltaFolding(database, "first"), DeltaFolding(database, "second")
    stop = threading.Event()
    stop.set()

    assert first.tick()
    write(database, take(database), 0)
    assert not second.tick()
    assert number(database) == 1
    first.run(stop)  # folds, and gives the role away
    assert number(database) == 0
    assert second.tick()


def test_two_that_fold_at_once_count_nothing_twice(database: Database, job: int) -> None:
    url = database.engine.url.render_as_string(hide_password=False)
    found: list[int] = []
    with closing(Database.open(url)) as other:
        both = [threading.Thread(target=lambda own=own: found.append(fold(own))) for own in (database, other)]
        for thread in both:
            thread.start()
        for thread in both:
            thread.join()

    assert sum(found) == 3
    with database.reading() as connection:
        assert count_deltas(connection) == 0
        assert list(find_contradictions(connection, job)) == []


def test_the_sums_of_one_job_are_found_by_index(database: Database, job: int) -> None:
    """Else a page of one job would add up the rollups of all."""
    with database.writing() as connection:
        connection.execute(text("SET LOCAL enable_seqscan = off"))
        for table in ALL:
            now = current(table)
            statement = select(now.job_id).where(now.job_id == job).compile(connection.engine)  # type: ignore[attr-defined]
            plan = connection.exec_driver_sql(f"EXPLAIN {statement}", statement.params).scalars().all()
            conditions = [line for line in plan if "Cond:" in line and "job_id = " in line]
            assert len(conditions) >= 2 or table is JobCounts, "\n".join(plan)
            assert not any("Seq Scan" in line for line in plan), "\n".join(plan)


def test_a_result_is_counted_as_soon_as_it_is_recorded(database: Database, add_waiting_job: AddWaitingJob) -> None:
    job = add_waiting_job(documents=2, per_shard=2, tokens=MAX_TOKENS)
    write(database, take(database), 0, outcomes=[translated()])

    with database.reading() as connection:
        assert find_job(connection, str(job)).succeeded == 1
