"""The loop of a lane, with an engine that answers at once."""

import faulthandler
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import func, select

from jobs.answers import Answers
from jobs.errors import ModelError, StageDied, Stopped, StoreError, TransientError, ValueRefused
from jobs.outcome import SegmentTranslation
from jobs.store.database import Database
from jobs.store.jobs import cancel
from jobs.store.memory import recall
from jobs.store.queue import deaths
from jobs.store.queue.batches import MAX_TOKENS, Batch
from jobs.store.schema import result_tables, tables
from jobs.store.schema.step_table import Step
from jobs.store.worker_registry import WorkerStats
from tests.rows import AddWaitingJob
from tests.scripted_sandboxes import poison
from tests.store.worker.echo import Echo, keeper_of, scalar
from worker import leased_shard
from worker.drain import drain
from worker.engine.runtime.run_context import RunContext
from worker.process.watchdog import Watchdog
from worker.providers.protocol import ProviderJob


def test_a_lane_processes_all_jobs(database: Database, add_waiting_job: AddWaitingJob) -> None:
    for _ in range(3):
        add_waiting_job(documents=5, per_shard=2)

    drain(database, Echo(), keeper_of(database))  # type: ignore[arg-type]

    assert scalar(database, func.count(result_tables.Translation.position)) == 15
    assert scalar(database, func.count(tables.Job.id).filter(tables.Job.state == "done")) == 3


def test_the_times_of_leasing_and_recording_are_recorded(database: Database, add_waiting_job: AddWaitingJob) -> None:
    add_waiting_job(documents=4, per_shard=4, tokens=MAX_TOKENS // 2)

    drain(database, Echo(), keeper_of(database))  # type: ignore[arg-type]

    with database.reading() as connection:
        timings = connection.execute(select(Step.timings).order_by(Step.id)).scalars().all()
    assert [list(json.loads(batch)) for batch in timings] == [["queue"], ["record"]]


def test_a_stopping_worker_finishes_its_batch_and_releases_the_rest(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    add_waiting_job(documents=6, per_shard=6, tokens=MAX_TOKENS // 2)
    keeper = keeper_of(database)
    engine = Echo(before=lambda batch, _: keeper.stop() if batch == 1 else None)

    drain(database, engine, keeper)  # type: ignore[arg-type]

    assert scalar(database, func.count(result_tables.Translation.position)) == 4
    assert scalar(database, tables.Shard.state) == "ready"
    assert scalar(database, tables.Shard.crashes) == 0


class FastEcho(Echo):
    """Its pace is known once it has processed a batch."""

    def batches_at_once(self, job: object) -> int:
        return 4 if self.batches else 1


def recorded(database: Database) -> list[int]:
    """The documents of each recorded batch, in their order."""
    batches = select(tables.ShardEvent.documents).where(tables.ShardEvent.event == "recorded")
    with database.reading() as connection:
        return list(connection.execute(batches.order_by(tables.ShardEvent.id)).scalars())


def test_once_its_pace_is_known_a_lane_computes_the_rest_of_its_shard_as_one(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    add_waiting_job(documents=8, per_shard=8, tokens=MAX_TOKENS // 2)

    drain(database, FastEcho(), keeper_of(database))  # type: ignore[arg-type]

    assert recorded(database) == [2, 6]
    assert scalar(database, tables.JobCounts.succeeded) == 8


def test_a_death_in_joined_batches_leaves_the_usual_ones(database: Database, add_waiting_job: AddWaitingJob) -> None:
    add_waiting_job(documents=8, per_shard=8, tokens=MAX_TOKENS // 2)
    tries: list[int] = []

    def die_in_the_second(batch: int, _: object) -> None:
        tries.append(batch)
        if len(tries) == 2:
            raise StageDied("the process of stage 1 of model m was killed by SIGKILL (signal 9)")

    drain(database, FastEcho(before=die_in_the_second), keeper_of(database))  # type: ignore[arg-type]

    assert recorded(database) == [2, 2, 4], "after the death first a batch of the usual size"
    assert scalar(database, tables.JobCounts.succeeded) == 8


def test_a_batch_whose_stage_died_is_computed_again_and_counts_as_a_crash(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    add_waiting_job(documents=6, per_shard=6, tokens=MAX_TOKENS // 2)
    crashes = []

    def die_in_the_second(batch: int, _: object) -> None:
        crashes.append(scalar(database, tables.Shard.crashes))
        if len(crashes) == 2:
            raise StageDied("the process of stage 1 of model m was killed by SIGKILL (signal 9)")

    drain(database, Echo(before=die_in_the_second), keeper_of(database))  # type: ignore[arg-type]

    assert crashes == [0, 0, 1, 0], "the second batch is computed twice"
    assert scalar(database, tables.JobCounts.succeeded) == 6
    assert scalar(database, tables.Job.state) == "done"


def test_a_batch_that_ends_two_stages_goes_to_a_disposable_process(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    add_waiting_job(documents=2, per_shard=2, tokens=1000)
    sandboxes = poison(1)

    def die(batch: int, _: object) -> None:
        raise StageDied("the process of stage 1 of model m was killed by SIGSEGV (signal 11)")

    drain(database, Echo(before=die), keeper_of(database), open_sandbox=sandboxes)  # type: ignore[arg-type]

    assert sandboxes.tried[0] == [0, 1]
    assert scalar(database, tables.JobCounts.succeeded) == 1
    assert scalar(database, tables.JobCounts.quarantined) == 1


def test_a_cancelled_job_ends_after_the_current_batch(database: Database, add_waiting_job: AddWaitingJob) -> None:
    job = add_waiting_job(documents=6, per_shard=6, tokens=MAX_TOKENS // 2)
    keeper = keeper_of(database)

    def cancel_the_job(batch: int, _: object) -> None:
        if batch == 0:
            cancel(database, job)
            keeper.record_heartbeat(WorkerStats())

    drain(database, Echo(before=cancel_the_job), keeper)  # type: ignore[arg-type]

    assert scalar(database, tables.JobCounts.succeeded) == 2
    assert scalar(database, tables.JobCounts.cancelled) == 4
    assert scalar(database, tables.Job.state) == "cancelled"


def test_a_lane_that_lost_its_lease_stops_between_two_steps_and_drops_its_batch(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    add_waiting_job(documents=2, per_shard=2)
    keeper = keeper_of(database, lease_s=-1.0)

    def expire_the_lease(batch: int, should_stop: Callable[[], bool]) -> None:
        if keeper.lease_s > 0:
            return
        deaths.expire(database)
        keeper.lease_s = 60.0
        keeper.record_heartbeat(WorkerStats())
        assert should_stop()
        raise Stopped("stopped between two steps, as an engine does")

    drain(database, Echo(before=expire_the_lease), keeper)  # type: ignore[arg-type]

    with database.reading() as connection:
        events = connection.execute(select(tables.ShardEvent.event).order_by(tables.ShardEvent.id)).scalars().all()
    assert events == ["leased", "expired", "leased", "recorded", "finished"]


def test_a_result_after_the_lease_expired_is_dropped_and_computed_again(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    add_waiting_job(documents=2, per_shard=2)
    keeper = keeper_of(database, lease_s=-1.0)

    def expire_it(batch: int, _: object) -> None:
        if batch == 0:
            deaths.expire(database)

    drain(database, Echo(before=expire_it), keeper)  # type: ignore[arg-type]

    assert scalar(database, func.count(result_tables.Translation.position)) == 2
    with database.reading() as connection:
        events = connection.execute(select(tables.ShardEvent.event).order_by(tables.ShardEvent.id)).scalars().all()
    assert events == ["leased", "expired", "stale_commit", "leased", "recorded", "finished"]


def test_a_model_that_cannot_run_pauses_its_job_and_the_next_job_continues(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    bad, good = add_waiting_job(documents=2, priority=1), add_waiting_job(documents=2)
    attempts = 0

    def refuse_the_first(batch: int, _: object) -> None:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            raise ModelError("the graph cannot run")

    drain(database, Echo(before=refuse_the_first), keeper_of(database))  # type: ignore[arg-type]

    with database.reading() as connection:
        jobs = {row.id: row for row in connection.execute(select(tables.Job.__table__))}
    assert (jobs[bad].paused, jobs[bad].reason, jobs[bad].state) == (True, "the graph cannot run", "running")
    assert jobs[good].state == "done"


def test_a_batch_is_kept_while_the_database_is_locked_or_refuses_writes(
    database: Database, add_waiting_job: AddWaitingJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_waiting_job(documents=2, per_shard=2)
    refusals = iter([TransientError("locked"), StoreError("permission denied"), TransientError("full")])

    def record(*arguments: Any, **options: Any) -> None:
        if (error := next(refusals, None)) is not None:
            raise error
        real(*arguments, **options)

    real = leased_shard.record
    monkeypatch.setattr(leased_shard, "record", record)
    monkeypatch.setattr(leased_shard.time, "sleep", lambda seconds: None)

    drain(database, Echo(), keeper_of(database))  # type: ignore[arg-type]

    assert scalar(database, tables.JobCounts.succeeded) == 2


def test_a_batch_whose_values_the_database_refuses_is_not_retried_for_ever(
    database: Database, add_waiting_job: AddWaitingJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process ends while it holds the lease; after a few such deaths the job is paused."""
    add_waiting_job(documents=2, per_shard=2)

    def record(*arguments: Any, **options: Any) -> None:
        raise ValueRefused("a text holds NUL")

    monkeypatch.setattr(leased_shard, "record", record)

    with pytest.raises(ValueRefused):
        drain(database, Echo(), keeper_of(database))  # type: ignore[arg-type]

    assert scalar(database, tables.Shard.state) == "leased"


@pytest.mark.parametrize("error", [TransientError("the connection was lost"), StoreError("permission denied")])
def test_a_shard_dropped_in_a_database_outage_is_released(
    database: Database, add_waiting_job: AddWaitingJob, error: StoreError
) -> None:
    """Otherwise the heartbeat would extend its lease with the others, and no worker would ever get the shard."""
    add_waiting_job(documents=2, per_shard=2)
    keeper = keeper_of(database)

    def lose_the_connection(batch: int, _: object) -> None:
        raise error

    with pytest.raises(type(error)):
        drain(database, Echo(before=lose_the_connection), keeper)  # type: ignore[arg-type]

    assert scalar(database, tables.Shard.state) == "ready"
    assert scalar(database, tables.Shard.crashes) == 0
    drain(database, Echo(), keeper)  # type: ignore[arg-type]
    assert scalar(database, tables.JobCounts.succeeded) == 2


def test_a_lane_without_steps_is_reported_as_hung_and_one_with_steps_is_not(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    add_waiting_job(documents=2, per_shard=2)
    keeper = keeper_of(database)
    told: list[str] = []  # asserted at the end: an error in a lane only fails its documents
    keeper.watchdog = Watchdog(10.0, 60.0, on_hang=told.append)

    def work(batch: int, should_stop: Callable[[], bool]) -> None:
        for _ in range(30):
            keeper.watchdog.tick(0.4)
            should_stop()
        told.append("12 s of steps")
        keeper.watchdog.tick(11.0)

    drain(database, Echo(before=work), keeper)  # type: ignore[arg-type]
    faulthandler.cancel_dump_traceback_later()

    assert told == ["12 s of steps", "no step for 11 s in job 1, shard 1, documents 0 to 1"]


def test_what_a_batch_learns_the_next_one_recalls_and_a_lane_that_waits_for_it_does_not_hang(
    database: Database, add_waiting_job: AddWaitingJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_waiting_job(documents=2, per_shard=2, tokens=MAX_TOKENS)
    keeper = keeper_of(database)
    hung: list[str] = []
    keeper.watchdog = Watchdog(10.0, 60.0, on_hang=hung.append)
    recalled: list[dict[bytes, SegmentTranslation]] = []
    known = SegmentTranslation(("rain",), (-0.5,), -0.5, 1, 1)

    def slow_recall(asked: Database, keys: Sequence[bytes]) -> dict[bytes, SegmentTranslation]:
        keeper.watchdog.tick(500.0)
        return recall(asked, keys)

    class Learning(Echo):
        def process(self, job: ProviderJob, documents: Batch, run: RunContext) -> Answers:
            recalled.append(run.memory.recall([b"key"]))
            return replace(super().process(job, documents, run), learned={b"key": known})

    monkeypatch.setattr("worker.stored_memory.recall", slow_recall)
    drain(database, Learning(), keeper)  # type: ignore[arg-type]
    faulthandler.cancel_dump_traceback_later()

    assert recalled == [{}, {b"key": known}]
    assert not [reason for reason in hung if "no step" in reason]
