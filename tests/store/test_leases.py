import itertools
import json
import threading

import pytest
from sqlalchemy import func, select, update

from jobs.errors import NotFoundError, SpecError, StaleLease
from jobs.outcome import Failed, SegmentTranslation, StepTiming
from jobs.store import jobs, lease_expiry, leases
from jobs.store.batches import MAX_TOKENS
from jobs.store.database import Database
from jobs.store.jobs import cancel, pause, resume, retry
from jobs.store.memory import recall
from jobs.store.record import record
from jobs.store.report.consistency_check import find_contradictions
from jobs.store.schema import tables
from jobs.store.schema.clock import db_time
from jobs.store.work import Work
from tests.rows import AddWaitingJob, translated

LEASE_S = 60.0


def take(database: Database, *, worker_id: int = 1, lease_s: float = LEASE_S) -> Work:
    work = leases.lease(database, worker_id, 0, lease_s)
    assert work is not None
    return work


def write(database: Database, work: Work, index: int = 0, **changes: object) -> None:
    outcomes = changes.pop("outcomes", [translated() for _ in work.batches[index]])
    arguments = {"learned": {}, "timings": [], "lease_s": LEASE_S, **changes}
    record(database, work, index, outcomes, **arguments)  # type: ignore[arg-type]


def counts(database: Database, job_id: int) -> tables.JobCounts:
    with database.reading() as connection:
        return connection.execute(select(tables.JobCounts.__table__).where(tables.JobCounts.job_id == job_id)).one()


def value(database: Database, column: object, *where: object) -> object:
    with database.reading() as connection:
        return connection.execute(select(column).where(*where)).scalar()  # type: ignore[call-overload]


def contradictory(database: Database, job_id: int) -> list[str]:
    with database.reading() as connection:
        return find_contradictions(connection, job_id)


def events(database: Database) -> list[str]:
    with database.reading() as connection:
        return list(connection.execute(select(tables.ShardEvent.event).order_by(tables.ShardEvent.id)).scalars())


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


def test_a_paused_job_is_passed_over_until_it_is_resumed(database: Database, add_waiting_job: AddWaitingJob) -> None:
    job = add_waiting_job()
    pause(database, job, "because")
    assert leases.lease(database, 1, 0, LEASE_S) is None

    resume(database, job)

    assert take(database).job_id == job
    assert value(database, tables.Job.reason, tables.Job.id == job) is None


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


def test_a_batch_is_recorded_as_a_whole_and_the_next_lease_goes_on_behind_it(
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

    for _ in range(2):  # as after a COMMIT whose answer was lost
        write(database, work, timings=[timing])

    assert counts(database, job).succeeded == 3
    assert value(database, func.count(tables.Step.id)) == 1
    assert value(database, func.count(tables.Translation.position)) == 3


def test_recording_a_middle_batch_twice_is_harmless_too(database: Database, add_waiting_job: AddWaitingJob) -> None:
    job = add_waiting_job(documents=4, per_shard=4, tokens=MAX_TOKENS // 2)
    work = take(database)

    for _ in range(2):
        write(database, work, 0)
    write(database, work, 1)

    assert counts(database, job).succeeded == 4
    assert value(database, tables.Job.state, tables.Job.id == job) == "done"


def test_whoever_slept_past_its_lease_is_refused_and_the_refusal_is_logged(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    job = add_waiting_job(documents=3, per_shard=3)
    sleeper = take(database, lease_s=-1.0)
    assert lease_expiry.expire(database) == 1
    successor = take(database, worker_id=2)
    write(database, successor, outcomes=[translated("the successor's")] * 3)

    with pytest.raises(StaleLease):
        write(database, sleeper, outcomes=[translated("the sleeper's")] * 3)

    assert counts(database, job).succeeded == 3
    assert value(database, func.count(tables.Translation.position), tables.Translation.text == "the successor's") == 3
    assert events(database)[-1] == "stale_commit"


def test_a_sleeper_is_refused_while_its_successor_computes_the_very_same_batch(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    add_waiting_job(documents=3, per_shard=3)
    sleeper = take(database, lease_s=-1.0)
    lease_expiry.expire(database)
    successor = take(database)
    assert successor.batches == sleeper.batches

    with pytest.raises(StaleLease):
        write(database, sleeper)

    assert value(database, func.count(tables.Translation.position)) == 0
    write(database, successor)


def test_a_sleeper_is_refused_even_while_nobody_took_its_shard(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    add_waiting_job(documents=3, per_shard=3)
    sleeper = take(database, lease_s=-1.0)
    lease_expiry.expire(database)

    with pytest.raises(StaleLease):
        write(database, sleeper)
    leases.release(database, sleeper)  # nor may it give back what is no longer its own

    assert value(database, tables.Shard.state) == "ready"
    assert "released" not in events(database)


def test_a_heartbeat_keeps_a_lease_from_expiring(database: Database, add_waiting_job: AddWaitingJob) -> None:
    add_waiting_job()
    work = take(database, worker_id=7, lease_s=-1.0)

    held = leases.heartbeat(database, LEASE_S, [work])

    assert held.tokens == {work.token}
    assert lease_expiry.expire(database) == 0


def test_a_lease_whose_worker_never_heard_of_it_runs_out(database: Database, add_waiting_job: AddWaitingJob) -> None:
    """The COMMIT of a lease may take place and its answer be lost."""
    add_waiting_job(documents=6, per_shard=3)
    take(database, worker_id=7, lease_s=-1.0)
    known = take(database, worker_id=7, lease_s=-1.0)

    leases.heartbeat(database, LEASE_S, [known])

    assert lease_expiry.expire(database) == 1


def test_a_heartbeat_tells_what_is_lost_and_what_is_unwanted(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    lost_job, paused_job = add_waiting_job(documents=1), add_waiting_job(documents=1)
    lost = take(database, worker_id=7, lease_s=-1.0)
    lease_expiry.expire(database)
    pause(database, lost_job)
    unwanted = take(database, worker_id=7)
    pause(database, paused_job)

    held = leases.heartbeat(database, LEASE_S, [lost, unwanted])

    assert lost.token not in held.tokens
    assert held.to_release == {unwanted.token}


def test_an_expired_lease_leaves_its_documents_in_flight_as_evidence(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    add_waiting_job(documents=3, per_shard=3)
    take(database, worker_id=7)

    assert lease_expiry.expire_workers(database, [7]) == 1

    event = tables.ShardEvent
    assert value(database, event.detail, event.event == "lost") == "[0,1,2]"
    assert value(database, tables.Shard.crashes) == 1


def test_a_shard_that_kills_worker_after_worker_pauses_its_job_and_says_why(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    job = add_waiting_job(documents=3, per_shard=3)

    for _ in range(lease_expiry.MAX_CRASHES):
        take(database, worker_id=7)
        lease_expiry.expire_workers(database, [7])

    assert leases.lease(database, 7, 0, LEASE_S) is None
    assert "documents 0 to 2" in str(value(database, tables.Job.reason, tables.Job.id == job))


def test_deaths_with_progress_between_them_never_pause_a_job(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    job = add_waiting_job(documents=40, per_shard=40, tokens=MAX_TOKENS)

    for _ in range(2 * lease_expiry.MAX_CRASHES):
        work = take(database, worker_id=7)
        write(database, work, 0)
        lease_expiry.expire_workers(database, [7])

    assert value(database, tables.Job.paused, tables.Job.id == job) is False


def test_a_failed_document_ends_badly_alone_and_retry_puts_it_back(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    job = add_waiting_job(documents=3, per_shard=3)
    write(database, take(database), outcomes=[translated(), Failed("engine-error", "it broke"), translated()])
    row = counts(database, job)
    assert (row.succeeded, row.failed, row.estimated_done) == (2, 1, 30)
    assert value(database, tables.Document.error, tables.Document.status == "failed") == "it broke"

    assert retry(database, job) == 1

    assert value(database, tables.Job.state, tables.Job.id == job) == "running"
    again = take(database)
    assert [d.position for d in again.batches[0]] == [1]
    write(database, again)
    row = counts(database, job)
    assert (row.succeeded, row.failed, row.shards_open, row.estimated_done) == (3, 0, 0, 30)
    assert value(database, tables.Job.state, tables.Job.id == job) == "done"


def test_a_document_that_is_put_back_while_its_shard_is_leased_is_not_lost(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    job = add_waiting_job(documents=4, per_shard=4, tokens=MAX_TOKENS // 2)
    work = take(database)
    write(database, work, 0, outcomes=[Failed("engine-error", "x"), translated()])
    assert retry(database, job) == 1

    write(database, work, 1)

    assert [d.position for d in take(database).batches[0]] == [0]


def test_cancel_keeps_results_and_ends_the_rest(database: Database, add_waiting_job: AddWaitingJob) -> None:
    job = add_waiting_job(documents=6, per_shard=2, rejected=(5,))
    write(database, take(database))
    held = take(database)

    assert cancel(database, job) == 1  # of the last shard; the held one follows its worker
    assert value(database, tables.Job.state, tables.Job.id == job) == "running"
    leases.release(database, held)

    row = counts(database, job)
    assert (row.succeeded, row.cancelled, row.rejected, row.shards_open) == (2, 3, 1, 0)
    assert value(database, tables.Job.state, tables.Job.id == job) == "cancelled"


def test_a_cancelled_job_goes_on_by_retry_with_what_has_no_result(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    job = add_waiting_job(documents=6, per_shard=2, rejected=(5,))
    write(database, take(database))
    cancel(database, job)
    assert value(database, tables.Job.state, tables.Job.id == job) == "cancelled"

    assert retry(database, job) == 3

    assert value(database, tables.Job.state, tables.Job.id == job) == "running"
    assert contradictory(database, job) == []
    row = counts(database, job)
    assert (row.succeeded, row.cancelled, row.rejected, row.shards_open) == (2, 0, 1, 2)
    while work := leases.lease(database, 1, 0, LEASE_S):
        write(database, work)
    row = counts(database, job)
    assert (row.succeeded, row.cancelled, row.estimated_done) == (5, 0, 50)
    assert value(database, tables.Job.state, tables.Job.id == job) == "done"
    assert contradictory(database, job) == []


def test_a_cancel_whose_job_is_retried_meanwhile_ends_and_leaves_the_rest_alone(
    database: Database, add_waiting_job: AddWaitingJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job of many shards is cancelled in several transactions, and anything may happen between two of them."""
    job = add_waiting_job(documents=4, per_shard=1)
    monkeypatch.setattr(jobs, "SHARDS_A_TRANSACTION", 1)
    transactions, begin = itertools.count(1), database.writing

    def writing() -> object:
        if next(transactions) == 3:  # the first took down the request, the second cancelled one shard
            assert retry(database, job) == 1
        return begin()

    with monkeypatch.context() as patch:
        patch.setattr(database, "writing", writing)
        assert cancel(database, job) == 1

    assert value(database, tables.Job.state, tables.Job.id == job) == "running"
    row = counts(database, job)
    assert (row.cancelled, row.shards_open) == (0, 4)
    assert contradictory(database, job) == []


def test_a_batch_that_was_in_hand_when_its_job_was_cancelled_is_kept(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    job = add_waiting_job(documents=2, per_shard=2)
    held = take(database)
    assert cancel(database, job) == 0

    write(database, held)

    assert counts(database, job).succeeded == 2
    assert value(database, tables.Job.state, tables.Job.id == job) == "done"


def test_an_ended_job_cannot_be_paused_or_cancelled(database: Database, add_waiting_job: AddWaitingJob) -> None:
    job = add_waiting_job(documents=1)
    write(database, take(database))

    for verb in (pause, resume, cancel):
        with pytest.raises(SpecError, match="done"):
            verb(database, job)
    with pytest.raises(NotFoundError):
        cancel(database, 99)


def test_a_shard_whose_documents_have_all_ended_is_closed_at_its_lease(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    job = add_waiting_job(documents=2, per_shard=2)
    with database.writing() as connection:
        connection.execute(update(tables.Document).values(status="failed"))

    assert take(database).batches == ()

    assert value(database, tables.Job.state, tables.Job.id == job) == "done"


def test_what_was_learned_comes_with_the_results_and_the_first_entry_stays(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    add_waiting_job(documents=2, per_shard=1)
    entry = SegmentTranslation(("你好",), (-0.5,), -1.5, 3, 2)

    write(database, take(database), learned={b"k": entry})
    write(database, take(database), learned={b"k": SegmentTranslation(("再见",), (-0.1,), -0.1, 1, 1)})

    assert recall(database, [b"k", b"unknown"]) == {b"k": entry}


def test_a_clock_that_is_set_back_after_a_submit_hides_no_shard(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    job = add_waiting_job(documents=3, per_shard=3)
    with database.writing() as connection:
        connection.execute(update(tables.Shard).values(available_at=db_time(3600.0)))

    assert take(database).job_id == job


def test_who_lost_its_lease_pauses_nothing(database: Database, add_waiting_job: AddWaitingJob) -> None:
    job = add_waiting_job(documents=3, per_shard=3)
    sleeper = take(database, lease_s=-1.0)
    lease_expiry.expire(database)

    leases.refuse(database, sleeper, "a model that is gone")
    assert value(database, tables.Job.paused, tables.Job.id == job) is False

    leases.refuse(database, take(database), "a model that is gone")
    assert value(database, tables.Job.reason, tables.Job.id == job) == "a model that is gone"
    assert value(database, tables.Shard.state) == "ready"
