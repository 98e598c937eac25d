"""Leases: which shard is next, heartbeats, expiry, and jobs on which workers die."""

import threading

from sqlalchemy import select, text, update

from jobs.spec import JobSpec
from jobs.store.database import Database
from jobs.store.jobs import pause, resume
from jobs.store.queue import deaths, leases
from jobs.store.queue.batches import MAX_TOKENS, batch_limits
from jobs.store.schema import tables
from jobs.store.schema.clock import db_time
from jobs.tasks.generate import GenerateOptions
from jobs.tasks.score import ScoreOptions
from jobs.tasks.task import Task
from tests.databases import ON_POSTGRESQL
from tests.rows import AddJob, AddWaitingJob, Line
from tests.store.leasing import LEASE_S, take, value, write

SCORING = JobSpec(task=Task.SCORE, model="m", model_revision="r", options=ScoreOptions())


def test_each_shard_is_leased_once_and_in_order(database: Database, add_waiting_job: AddWaitingJob) -> None:
    add_waiting_job(documents=6, per_shard=3)

    first, second = take(database), take(database)

    assert [d.position for d in first.batches[0]] == [0, 1, 2]
    assert [d.position for d in second.batches[0]] == [3, 4, 5]
    assert leases.lease(database, 1, 0, LEASE_S) is None


def test_many_threads_never_lease_the_same_shard(database: Database, add_waiting_job: AddWaitingJob) -> None:
    add_waiting_job(documents=40, per_shard=1)
    taken: list[int] = []

    def work() -> None:
        while (mine := leases.lease(database, 1, 0, LEASE_S)) is not None:
            taken.append(mine.shard_id)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(taken) == len(set(taken)) == 40


def test_higher_priority_goes_first_then_the_older_job(database: Database, add_waiting_job: AddWaitingJob) -> None:
    old, urgent, new = add_waiting_job(), add_waiting_job(priority=5), add_waiting_job()

    order = [take(database).job_id for _ in range(6)]

    assert order == [urgent, urgent, old, old, new, new]


def test_a_lease_begins_with_the_chain_that_the_worker_was_started_for(database: Database, add_job: AddJob) -> None:
    urgent, first = add_job(Line("a"), priority=5), add_job(Line("a"), chain=2, stage=1)

    assert [take(database, first_job=2).job_id for _ in range(2)] == [first, urgent]


@ON_POSTGRESQL
def test_a_shard_that_another_worker_is_leasing_keeps_nobody_from_the_next_one(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    """Whether the next one is of the same job or of another."""
    single, two, last = (add_waiting_job(documents=number, per_shard=1) for number in (1, 2, 1))
    with database.writing() as connection:
        for job in (single, two):
            leased = select(tables.Shard.id).where(tables.Shard.job_id == job).order_by(tables.Shard.id).limit(1)
            connection.execute(leased.with_for_update())

        assert [take(database).job_id for _ in range(2)] == [two, last]
        assert leases.lease(database, 1, 0, LEASE_S) is None

    assert [take(database).job_id for _ in range(2)] == [single, two]


def test_a_paused_job_is_skipped_until_it_is_resumed(database: Database, add_waiting_job: AddWaitingJob) -> None:
    job = add_waiting_job()
    pause(database, job, "because")
    assert leases.lease(database, 1, 0, LEASE_S) is None

    resume(database, job)

    assert take(database).job_id == job
    assert value(database, tables.Job.reason, tables.Job.id == job) is None


def borders(database: Database, batches_at_once: int) -> list[int]:
    """Lease the shard for a moment: the number of documents of each batch."""
    work = leases.lease(database, 7, 0, LEASE_S, batches_at_once=lambda spec: batches_at_once)
    assert work is not None
    leases.release(database, work)
    return [len(batch) for batch in work.batches]


def test_a_lane_that_is_fast_gets_several_batches_as_one(database: Database, add_waiting_job: AddWaitingJob) -> None:
    add_waiting_job(documents=6, per_shard=6, tokens=MAX_TOKENS // 2)

    assert borders(database, 1) == [2, 2, 2]
    assert borders(database, 2) == [4, 2]
    assert borders(database, 4) == [6]


def test_scores_may_depend_on_their_batch_so_its_size_stays(database: Database, add_waiting_job: AddWaitingJob) -> None:
    add_waiting_job(documents=6, per_shard=6, tokens=MAX_TOKENS // 2, spec=SCORING)

    assert borders(database, 4) == [2, 2, 2]


def test_a_batch_of_prompts_has_its_own_limit(database: Database, add_waiting_job: AddWaitingJob) -> None:
    spec = JobSpec(task=Task.GENERATE, model="m", model_revision="r", options=GenerateOptions())
    add_waiting_job(documents=5, per_shard=5, tokens=batch_limits(spec.kind).tokens // 2, spec=spec)

    assert borders(database, 1) == [2, 2, 1]


def test_after_a_crash_no_more_documents_than_usual_are_suspect(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    add_waiting_job(documents=6, per_shard=6, tokens=MAX_TOKENS // 2)
    work = leases.lease(database, 7, 0, LEASE_S, batches_at_once=lambda spec: 4)
    assert work is not None
    deaths.expire_workers(database, [7])

    assert borders(database, 4) == [2, 2, 2]


def test_a_heartbeat_keeps_a_lease_from_expiring(database: Database, add_waiting_job: AddWaitingJob) -> None:
    add_waiting_job()
    work = take(database, worker_id=7, lease_s=-1.0)

    with database.writing() as connection:
        held = leases.renew(connection, LEASE_S, [work])

    assert held.tokens == {work.token}
    assert deaths.expire(database) == 0


@ON_POSTGRESQL
def test_a_heartbeat_does_not_wait_for_a_shard_that_is_being_recorded(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    add_waiting_job()
    work = take(database, worker_id=7, lease_s=0.9 * LEASE_S)

    with database.writing() as recorder, database.writing() as heartbeat:
        recorder.execute(select(tables.Shard.id).with_for_update())
        heartbeat.execute(text("SET LOCAL lock_timeout = 1"))
        held = leases.renew(heartbeat, LEASE_S, [work])

    assert held.tokens == {work.token}


@ON_POSTGRESQL
def test_a_heartbeat_waits_for_a_locked_shard_half_of_whose_lease_has_passed(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    add_waiting_job(documents=6, per_shard=3)
    old, fresh = take(database, worker_id=7, lease_s=0.4 * LEASE_S), take(database, worker_id=7, lease_s=0.9 * LEASE_S)
    held = []

    def renew() -> None:
        with database.writing() as connection:
            held.append(leases.renew(connection, LEASE_S, [old, fresh]))

    heartbeat = threading.Thread(target=renew)
    with database.writing() as recorder:
        recorder.execute(select(tables.Shard.id).with_for_update())
        heartbeat.start()
        heartbeat.join(0.3)
        assert heartbeat.is_alive()
    heartbeat.join(10)

    assert held[0].tokens == {old.token, fresh.token}
    with database.reading() as connection:
        left = select(tables.Shard.lease_until > db_time(0.8 * LEASE_S)).order_by(tables.Shard.id)
        assert connection.execute(left).scalars().all() == [True, True]


def test_a_lease_that_its_worker_does_not_know_of_expires(database: Database, add_waiting_job: AddWaitingJob) -> None:
    """The COMMIT of a lease may succeed although its answer is lost."""
    add_waiting_job(documents=6, per_shard=3)
    take(database, worker_id=7, lease_s=-1.0)
    known = take(database, worker_id=7, lease_s=-1.0)

    with database.writing() as connection:
        leases.renew(connection, LEASE_S, [known])

    assert deaths.expire(database) == 1


def test_a_heartbeat_of_a_lost_lease_renews_no_later_one(database: Database, add_waiting_job: AddWaitingJob) -> None:
    add_waiting_job()
    lost = take(database, lease_s=-1.0)
    deaths.expire(database)
    take(database, lease_s=-1.0)

    with database.writing() as connection:
        leases.renew(connection, LEASE_S, [lost])

    assert deaths.expire(database) == 1


def test_a_shard_that_is_done_is_not_given_back(database: Database, add_waiting_job: AddWaitingJob) -> None:
    """By a worker that is told to stop before it hears of its last COMMIT."""
    add_waiting_job(documents=2, per_shard=2)
    work = take(database)
    write(database, work)

    leases.release(database, work)

    assert value(database, tables.Shard.state) == "done"


def test_a_heartbeat_returns_the_leases_that_are_lost_and_those_to_release(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    lost_job, paused_job = add_waiting_job(documents=1), add_waiting_job(documents=1)
    lost = take(database, worker_id=7, lease_s=-1.0)
    deaths.expire(database)
    pause(database, lost_job)
    unwanted = take(database, worker_id=7)
    pause(database, paused_job)

    with database.writing() as connection:
        held = leases.renew(connection, LEASE_S, [lost, unwanted])

    assert lost.token not in held.tokens
    assert held.to_release == {unwanted.token}


def test_an_expired_lease_logs_the_documents_in_flight(database: Database, add_waiting_job: AddWaitingJob) -> None:
    add_waiting_job(documents=3, per_shard=3)
    take(database, worker_id=7)

    assert deaths.expire_workers(database, [7]) == 1

    event = tables.ShardEvent
    assert value(database, event.detail, event.event == "lost") == "[0,1,2]"
    assert value(database, tables.Shard.crashes) == 1


def test_a_shard_that_kills_several_workers_pauses_its_job_with_the_reason(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    job = add_waiting_job(documents=3, per_shard=3)

    for _ in range(deaths.MAX_CRASHES):
        take(database, worker_id=7)
        deaths.expire_workers(database, [7])

    assert leases.lease(database, 7, 0, LEASE_S) is None
    assert "0 to 2" in str(value(database, tables.Job.reason, tables.Job.id == job))


def test_deaths_with_progress_between_them_never_pause_a_job(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    job = add_waiting_job(documents=40, per_shard=40, tokens=MAX_TOKENS)

    for _ in range(2 * deaths.MAX_CRASHES):
        work = take(database, worker_id=7)
        write(database, work, 0)
        deaths.expire_workers(database, [7])

    assert value(database, tables.Job.paused, tables.Job.id == job) is False


def test_a_shard_without_open_documents_is_closed_when_it_is_leased(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    job = add_waiting_job(documents=2, per_shard=2)
    with database.writing() as connection:
        connection.execute(update(tables.Document).values(status="failed"))

    assert take(database).batches == ()

    assert value(database, tables.Job.state, tables.Job.id == job) == "done"


def test_shards_can_be_leased_after_the_clock_was_set_back(database: Database, add_waiting_job: AddWaitingJob) -> None:
    job = add_waiting_job(documents=3, per_shard=3)
    with database.writing() as connection:
        connection.execute(update(tables.Shard).values(available_at=db_time(3600.0)))

    assert take(database).job_id == job


def test_a_worker_that_lost_its_lease_pauses_nothing(database: Database, add_waiting_job: AddWaitingJob) -> None:
    job = add_waiting_job(documents=3, per_shard=3)
    sleeper = take(database, lease_s=-1.0)
    deaths.expire(database)

    leases.refuse(database, sleeper, "a model that is gone")
    assert value(database, tables.Job.paused, tables.Job.id == job) is False

    leases.refuse(database, take(database), "a model that is gone")
    assert value(database, tables.Job.reason, tables.Job.id == job) == "a model that is gone"
    assert value(database, tables.Shard.state) == "ready"


@ON_POSTGRESQL
def test_a_lease_reads_the_documents_and_results_of_its_own_shard_alone(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    """Also where the server has no statistics and has planned each statement once for all shards."""
    shards, documents = 50, 20
    add_waiting_job(documents=shards * documents, per_shard=documents)
    before = rows_read(database)
    for _ in range(shards):
        write(database, take(database))

    read = {table: number - before[table] for table, number in rows_read(database).items()}
    # All results for each shard would be 50 times as many.
    assert max(read.values()) <= 20 * shards * documents, read


def rows_read(database: Database) -> dict[str, int]:
    """The rows of tables, and entries of their indexes, that PostgreSQL has read so far."""
    database.engine.dispose()  # a server process reports what it has read when it ends, at the latest
    counted = """SELECT t.relname, t.seq_tup_read + sum(i.idx_tup_read) FROM pg_stat_user_tables t
        JOIN pg_stat_user_indexes i USING (relid) WHERE t.relname IN ('documents', 'translations')
        GROUP BY t.relname, t.seq_tup_read"""
    with database.reading() as connection:
        return {table: int(read) for table, read in connection.execute(text(counted))}
