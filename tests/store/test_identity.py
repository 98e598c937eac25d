"""A worker that slept returns to a database in which its ids refer to another job: after a prune, or after a restore.
Its results must not be written into that job."""

import pytest
from sqlalchemy import func, select

from jobs.answers import Answers
from jobs.errors import StaleLease
from jobs.store.database import Database
from jobs.store.disk_space.prune import prune_jobs
from jobs.store.queue import deaths, leases
from jobs.store.queue.deaths import log_death
from jobs.store.queue.record import record
from jobs.store.queue.work import Work
from jobs.store.schema import result_tables, tables
from jobs.store.schema.step_table import Step
from tests.databases import ON_SQLITE
from tests.rows import AddWaitingJob, translated
from tests.store.dump import Dump


def take(database: Database, worker_id: int = 1, lease_s: float = 60.0) -> Work:
    work = leases.lease(database, worker_id, 0, lease_s)
    assert work is not None
    return work


def write(database: Database, work: Work, text: str) -> None:
    outcomes = [translated(text) for _ in work.batches[0]]
    record(database, work, 0, Answers(outcomes), lease_s=60.0)


def texts(database: Database) -> list[str]:
    with database.reading() as connection:
        found = select(result_tables.Translation.text).order_by(
            result_tables.Translation.job_id, result_tables.Translation.position
        )
        return list(connection.execute(found).scalars())


def count(database: Database, table: type[tables.Base], job_id: int) -> int:
    with database.reading() as connection:
        column = table.job_id  # type: ignore[attr-defined]
        return int(connection.execute(select(func.count()).where(column == job_id)).scalar_one())


def test_a_worker_whose_job_was_pruned_writes_nothing_into_a_job_with_the_same_ids(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    """If ids are reused and epochs begin at 1, the batch of the worker that slept matches one of the new job."""
    pruned = add_waiting_job(documents=3, per_shard=3)
    sleeper = take(database, worker_id=1, lease_s=-1.0)
    deaths.expire(database)
    write(database, take(database, worker_id=2), "of the first job")
    prune_jobs(database, [pruned])
    add_waiting_job(documents=3, per_shard=3)
    successor = take(database, worker_id=2)

    with pytest.raises(StaleLease):
        write(database, sleeper, "late")

    assert texts(database) == []
    write(database, successor, "of the second job")
    assert texts(database) == ["of the second job"] * 3


def test_a_worker_from_before_a_restore_writes_nothing_into_a_job_with_the_same_ids(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    backup = Dump.of(database)
    first = add_waiting_job(documents=3, per_shard=3)
    sleeper = take(database)
    backup.restore(database)
    assert add_waiting_job(documents=3, per_shard=3) == first
    successor = take(database)
    assert (successor.shard_id, successor.epoch) == (sleeper.shard_id, sleeper.epoch)

    with pytest.raises(StaleLease):
        write(database, sleeper, "late")
    with pytest.raises(StaleLease):
        log_death(database, sleeper, sleeper.batches[0], "signal 11")
    leases.release(database, sleeper)

    assert texts(database) == []
    with database.writing() as connection:
        assert leases.renew(connection, 60.0, [sleeper, successor]).tokens == {successor.token}
    write(database, successor, "of the second job")
    assert texts(database) == ["of the second job"] * 3


def test_a_restored_database_gives_the_number_of_a_lease_away_again_but_not_its_token(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    """The job lived through the restore, so the lease differs in nothing but its token."""
    add_waiting_job(documents=3, per_shard=3)
    backup = Dump.of(database)
    sleeper = take(database)
    backup.restore(database)
    successor = take(database)
    assert (successor.job_id, successor.shard_id, successor.epoch) == (sleeper.job_id, sleeper.shard_id, sleeper.epoch)

    with pytest.raises(StaleLease):
        write(database, sleeper, "late")

    write(database, successor, "in time")
    assert texts(database) == ["in time"] * 3


def test_a_batch_lost_in_a_restore_does_not_count_as_recorded(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    """The shard has the same epoch, but from another lease."""
    add_waiting_job(documents=3, per_shard=3)
    backup = Dump.of(database)
    sleeper = take(database)
    backup.restore(database)
    leases.release(database, take(database))  # ready, with the same epoch

    with pytest.raises(StaleLease):
        write(database, sleeper, "late")

    assert texts(database) == []


def test_a_late_batch_of_a_pruned_job_is_stale_and_leaves_no_row(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    pruned = add_waiting_job(documents=3, per_shard=3)
    sleeper = take(database, lease_s=-1.0)
    deaths.expire(database)
    write(database, take(database, worker_id=2), "of the first job")
    prune_jobs(database, [pruned])

    with pytest.raises(StaleLease):
        write(database, sleeper, "late")
    with pytest.raises(StaleLease):
        log_death(database, sleeper, sleeper.batches[0], "signal 11")
    leases.release(database, sleeper)

    for table in (result_tables.Translation, Step, tables.ShardEvent, tables.Shard):
        assert count(database, table, pruned) == 0


@ON_SQLITE
def test_ids_of_jobs_and_shards_are_never_reused(database: Database, add_waiting_job: AddWaitingJob) -> None:
    pruned = add_waiting_job(documents=3, per_shard=3)
    first = take(database)
    write(database, first, "of the first job")
    prune_jobs(database, [pruned])

    again = add_waiting_job(documents=3, per_shard=3)

    assert again > pruned
    assert take(database).shard_id > first.shard_id
