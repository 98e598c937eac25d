"""Upgrades to 0006, 0010 and 0030 give a database the rollups that it would have had, had it always kept them."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, text

from jobs.outcome import Failed, Flag, Outcome, Quarantined, RankedCandidate, Ranking, Score, StepTiming, Translation
from jobs.spec import JobSpec
from jobs.store.database import Database
from jobs.store.disk_space.prune import prune_jobs
from jobs.store.jobs import cancel, retry
from jobs.store.queue import deaths, leases
from jobs.store.queue.batches import MAX_TOKENS
from jobs.store.queue.deltas import fold
from jobs.store.queue.work import Work
from jobs.store.schema import result_tables, tables
from jobs.store.schema.migrate import differences, downgrade, upgrade
from jobs.store.schema.rollup_tables import SUMS, MinuteSums, RecordedBatch
from jobs.tasks.rerank import RerankOptions
from jobs.tasks.score import ScoreOptions
from jobs.tasks.task import Task
from tests.databases import ON_POSTGRESQL
from tests.rows import add_timings, insert_waiting_job, translated
from tests.store import leasing
from tests.store.leasing import contradictory, take, value
from tests.store.schema.older_database import MadeOnce, copied, made_of_each_kind

BEFORE_ROLLUPS = "0005"
BEFORE_SECONDS = "0009"
BEFORE_FLAGS = "0029"
SCORE = JobSpec(task=Task.SCORE, model="tiny", model_revision="r1", options=ScoreOptions())
RERANK = JobSpec(task=Task.RERANK, model="tiny", model_revision="r2", options=RerankOptions())
TIMINGS = [
    StepTiming("queue", 0, 2, 0, 0, 0.125),
    StepTiming("encode", 0, 2, 20, 0, 1.0),
    StepTiming("prefill", 0, 2, 20, 0, 0.5),
    StepTiming("decode", 1, 2, 2, 31, 0.25),
    StepTiming("decode", 2, 1, 1, 32, 0.25),
    StepTiming("decode", 0, 9, 9, 900, 2.0, calls=3),
]


def write(database: Database, work: Work, index: int = 0, **changes: object) -> None:
    """Record a batch in a millisecond of its own: an upgrade tells batches apart by SQLite's times."""
    time.sleep(0.002)
    leasing.write(database, work, index, **changes)


@pytest.fixture(scope="module")
def worked_on(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MadeOnce]:
    """Databases with jobs of every task, with failures, retries, a lost lease, a pruned job, and batches of one and of
    many."""
    with made_of_each_kind(_work_on, tmp_path_factory.mktemp("worked-on")) as made:
        yield made


@pytest.fixture
def database(request: pytest.FixtureRequest, worked_on: MadeOnce, tmp_path: Path) -> Iterator[Database]:
    """A copy of `worked_on`."""
    with copied(worked_on(request.param), tmp_path) as database:
        yield database


def _work_on(database: Database) -> None:
    upgrade(database.engine)
    _translate(database)
    _score_and_rerank(database)
    gone = insert_waiting_job(database, documents=1, per_shard=1)
    write(database, take(database), timings=TIMINGS)
    prune_jobs(database, [gone])


def _translate(database: Database) -> None:
    job = insert_waiting_job(database, documents=9, per_shard=4, tokens=MAX_TOKENS // 2, rejected=(8,))
    lost = take(database, lease_s=-1.0)
    write(database, lost, 0, timings=TIMINGS, lease_s=-1.0)
    deaths.expire(database)
    bad: list[Outcome] = [Failed("engine-error", "it broke"), Quarantined("killed", "two workers died")]
    write(database, take(database), 0, outcomes=bad, timings=TIMINGS[:2])
    work = take(database)
    write(database, work, 0, outcomes=[Translation("x", -0.7, 1, 0, 8, 1), Translation("y", 0.0, 0, 0, 0, 0)])
    write(database, work, 1, outcomes=[bad[0], translated()], timings=TIMINGS[1:])
    retry(database, job)
    work = take(database)
    write(database, work, outcomes=[translated("x", Flag.TRUNCATED, Flag.REPETITION), bad[1]])
    while (rest := leases.lease(database, 1, 0, 60.0)) is not None:
        for index, batch in enumerate(rest.batches):
            write(database, rest, index, outcomes=[bad[0] for _ in batch], timings=TIMINGS)
    cancel_rest = insert_waiting_job(database, documents=4, per_shard=2)
    write(database, take(database), outcomes=[translated(), bad[0]])
    cancel(database, cancel_rest)


def _score_and_rerank(database: Database) -> None:
    insert_waiting_job(database, documents=3, per_shard=3, spec=SCORE)
    scores = [Score(nll, number, 1, 1, flags=(Flag.TRUNCATED,)) for nll, number in ((6.0, 3), (9e5, 1), (0.0, 0))]
    write(database, take(database), outcomes=scores, timings=TIMINGS)
    insert_waiting_job(database, documents=1, per_shard=1, spec=RERANK)
    ranking = Ranking((RankedCandidate("b", 1, -0.5, 2.0),), num_tokens=7, num_computed=20, num_shared=4)
    write(database, take(database), outcomes=[ranking], timings=TIMINGS)


def rollups(database: Database) -> dict[str, list[dict[str, Any]]]:
    """Every row of every rollup, without the columns that an older version did not store exactly. Batches are summed up
    by lease: a test records several within a millisecond, which is all that SQLite's times tell apart."""
    found = {}
    with database.reading() as connection:
        for rollup in (*SUMS, RecordedBatch):
            names = [one.name for one in rollup.__table__.columns if one.name not in ("id", "ended_at")]
            key = [column.name for column in rollup.__table__.primary_key]
            columns = ", ".join(names)
            if rollup is RecordedBatch:
                key = ["job_id", "shard_id", "epoch", "worker_id", "lane"]
                columns = ", ".join(name if name in key else f"sum({name}) AS {name}" for name in names)
                columns += ", count(*) AS batches"
            of_lease = f"GROUP BY {', '.join(key)}" if rollup is RecordedBatch else ""
            sql = f"SELECT {columns} FROM {rollup.__tablename__} {of_lease} ORDER BY {', '.join(key)}"
            found[rollup.__tablename__] = [dict(row) for row in connection.execute(text(sql)).mappings()]
    return found


@pytest.mark.parametrize("version", [BEFORE_ROLLUPS, BEFORE_SECONDS, BEFORE_FLAGS])
def test_the_rollups_of_an_upgraded_database_are_those_that_it_would_have_kept(
    database: Database, version: str
) -> None:
    kept = rollups(database)
    assert all(kept.values())

    fold(database)
    downgrade(database.engine, version)
    upgrade(database.engine)

    assert rollups(database) == kept
    assert differences(database.engine) == []
    with database.reading() as connection:
        jobs = connection.execute(text("SELECT id FROM jobs")).scalars().all()
    assert {job: contradictory(database, job) for job in jobs} == {job: [] for job in jobs}


@ON_POSTGRESQL
def test_results_of_an_older_version_that_were_written_one_after_the_other_belong_to_their_batch(
    database: Database,
) -> None:
    """Each row then had a time of its own, a little before that of its batch."""
    kept = batches(database)
    downgrade(database.engine, BEFORE_ROLLUPS)
    with database.writing() as connection:
        for table, time in (("translations", "finished_at"), ("steps", "recorded_at")):
            connection.execute(text(f"UPDATE {table} SET {time} = {time} - interval '1 us' * (random() * 3)"))

    upgrade(database.engine)

    assert batches(database) == kept


def batches(database: Database) -> list[tuple[Any, ...]]:
    with database.reading() as connection:
        sql = "SELECT job_id, shard_id, epoch, documents, failed, calls, busy_s FROM batches ORDER BY id"
        return [tuple(row) for row in connection.execute(text(sql))]


def test_where_a_clock_was_set_back_no_result_is_lost_between_the_batches(database: Database) -> None:
    downgrade(database.engine, BEFORE_ROLLUPS)
    with database.writing() as connection:
        connection.execute(
            result_tables.Translation.__table__.update().values(finished_at=text("'2030-01-01 00:00:00.000'"))
        )

    upgrade(database.engine)

    for job in (1, 2):
        assert contradictory(database, job) == []
    assert value(database, tables.JobCounts.succeeded, tables.JobCounts.job_id == 1)


def test_an_upgrade_counts_the_seconds_of_a_minute_in_which_no_document_ended(database: Database) -> None:
    add_timings(database, 1, TIMINGS, at=datetime(2026, 1, 2, 23, 59, 59, 999000, UTC))
    add_timings(database, 1, TIMINGS[:2], at=datetime(2026, 1, 2, 23, 59, 0, 0, UTC))
    add_timings(database, 1, TIMINGS[:1], at=datetime(2026, 1, 3, 0, 0, 0, 0, UTC))
    downgrade(database.engine, BEFORE_SECONDS)

    upgrade(database.engine)

    with database.reading() as connection:
        sql = "SELECT documents, failed, busy_s, model_s FROM minute_sums WHERE job_id = 1 ORDER BY minute LIMIT 2"
        assert [tuple(row) for row in connection.execute(text(sql))] == [(0, 0, 5.25, 5.0), (0, 0, 0.125, 0.0)]
    assert contradictory(database, 1) == []


def test_an_older_version_has_no_minute_in_which_no_document_ended(database: Database) -> None:
    add_timings(database, 1, TIMINGS, at=datetime(2026, 1, 2, 23, 59, 59, 999000, UTC))
    number = value(database, func.count(MinuteSums.minute), MinuteSums.job_id == 1)

    downgrade(database.engine, BEFORE_SECONDS)

    with database.reading() as connection:
        left = connection.execute(text("SELECT count(*) FROM minute_sums WHERE job_id = 1")).scalar_one()
    assert number == left + 1 > 1


@ON_POSTGRESQL
def test_an_upgrade_leaves_out_batches_of_a_job_that_is_gone(database: Database) -> None:
    """On PostgreSQL no reference deletes them with their job."""
    downgrade(database.engine, BEFORE_SECONDS)
    with database.writing() as connection:
        connection.execute(text("UPDATE batches SET job_id = 99 WHERE job_id = 2"))

    upgrade(database.engine)

    assert value(database, func.count(MinuteSums.minute), MinuteSums.job_id == 99) == 0
