"""The rollups say what a recount of the rows says, whatever happens to a job."""

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import func, select, text, update

from jobs.buckets import BucketMeasure, bucket_of
from jobs.choices import By
from jobs.documents import Document, Record, Reject, Rejected
from jobs.errors import StaleLease
from jobs.outcome import Failed, Flag, Outcome, Quarantined, Score, StepTiming, Translation
from jobs.spec import JobSpec
from jobs.store.database import Database
from jobs.store.disk_space.prune import prune_jobs
from jobs.store.ingest.bulk_insert import insert_batch
from jobs.store.ingest.lifecycle import abandon
from jobs.store.jobs import cancel, retry
from jobs.store.queue import deaths
from jobs.store.queue.batches import MAX_TOKENS
from jobs.store.report.failures import failures
from jobs.store.report.job_summary import find_job
from jobs.store.report.timings.steps import summarize_steps
from jobs.store.schema import tables
from jobs.store.schema.results import RESULTS
from jobs.store.schema.rollup_tables import SUMS, FailureCounts, MinuteSums, PhaseSums, RecordedBatch
from jobs.store.schema.states import JobState
from jobs.store.schema.step_table import Step
from jobs.tasks.score import ScoreOptions
from jobs.tasks.task import Task
from tests.rows import AddJob, AddWaitingJob, add_timings, translated
from tests.store.leasing import contradictory, take, value, write

FLAGGED = translated("x", Flag.TRUNCATED, Flag.NUMBER_CHANGED)
SCORE = JobSpec(task=Task.SCORE, model="tiny", model_revision="r1", options=ScoreOptions())
BROKE, DEADLY = Failed("engine-error", "it broke"), Quarantined("killed", "two workers died")
TIMINGS = [
    StepTiming("queue", 0, 2, 0, 0, 0.125),
    StepTiming("encode", 0, 2, 20, 0, 1.0),
    StepTiming("prefill", 0, 2, 20, 0, 0.5),
    StepTiming("decode", 1, 2, 2, 31, 0.25),
    StepTiming("decode", 2, 1, 1, 32, 0.25),
    StepTiming("decode", 0, 9, 9, 900, 2.0, calls=3),
]


def translation(log_prob: float, source: int, target: int) -> Translation:
    return Translation("x", log_prob, 1, 0, source, target)


def scored(nll_sum: float, num_tokens: int) -> Score:
    return Score(nll_sum=nll_sum, num_tokens=num_tokens, num_words=1, num_bytes=1)


def rows(database: Database, sql: str, **values: object) -> list[tuple[Any, ...]]:
    with database.reading() as connection:
        return [tuple(row) for row in connection.execute(text(sql), values)]


def number_of_rows(database: Database, job: int) -> dict[str, int]:
    with database.reading() as connection:
        return {
            rollup.__tablename__: connection.execute(
                select(func.count()).select_from(rollup).where(rollup.job_id == job)
            ).scalar_one()
            for rollup in (*SUMS, RecordedBatch)
        }


def test_what_a_batch_added_is_in_the_views(database: Database, add_waiting_job: AddWaitingJob) -> None:
    job = add_waiting_job(documents=5, per_shard=5)
    outcomes: list[Outcome] = [translation(-0.7, 8, 1), translation(-0.7, 9, 1), translation(0.0, 0, 0), BROKE, DEADLY]

    write(database, take(database), outcomes=outcomes, timings=TIMINGS)

    def read(columns: str, view: str) -> list[tuple[Any, ...]]:
        return rows(database, f"SELECT {columns} FROM {view} WHERE job_id = :job ORDER BY 1, 2", job=job)

    assert read("phase, calls, rows, tokens, seconds", "v_phases") == [
        ("decode", 5, 12, 12, 2.5),
        ("encode", 1, 2, 20, 1.0),
        ("prefill", 1, 2, 20, 0.5),
        ("queue", 1, 2, 0, 0.125),
    ]
    assert read("phase, step, calls, seconds", "v_decoder_steps") == [
        ("decode", 0, 3, 2.0),
        ("decode", 1, 1, 0.25),
        ("decode", 2, 1, 0.25),
        ("prefill", 0, 1, 0.5),
    ]
    assert read("past_length, calls, rows, seconds", "v_past_lengths") == [(0, 1, 2, 0.25), (32, 1, 1, 0.25)]
    assert read("documents, source_tokens, target_tokens, failed, busy_s, model_s", "v_throughput") == [
        (3, 17, 2, 2, 4.125, 4.0)
    ]
    assert read("measure, bucket, documents", "v_measures") == [("length", 12, 2), ("perplexity", 8, 2)]
    assert read("status, error_code, documents", "v_failures") == [
        ("failed", "engine-error", 1),
        ("quarantined", "killed", 1),
    ]
    assert read("worker_id, lane, documents, failed, calls, rows, tokens, busy_s, model_s", "v_batches") == [
        (1, 0, 3, 2, 8, 18, 52, 4.125, 4.0)
    ]
    assert contradictory(database, job) == []


def test_batches_add_up(database: Database, add_waiting_job: AddWaitingJob) -> None:
    job = add_waiting_job(documents=6, per_shard=3, tokens=MAX_TOKENS // 2)

    for _ in range(2):
        work = take(database)
        for index in range(len(work.batches)):
            write(database, work, index, timings=TIMINGS)

    assert number_of_rows(database, job)["batches"] == 4
    assert value(database, PhaseSums.seconds, PhaseSums.phase == "decode") == 4 * 2.5
    assert contradictory(database, job) == []


def test_the_seconds_of_the_minutes_are_those_of_the_batches(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    job = add_waiting_job(documents=20, per_shard=20, tokens=MAX_TOKENS // 2)
    work = take(database)
    for index in range(len(work.batches)):
        write(
            database,
            work,
            index,
            timings=[StepTiming("decode", 1, 2, 2, 0, 0.1), StepTiming("record", 0, 2, 0, 0, 0.7)],
        )

    assert value(database, func.sum(MinuteSums.busy_s)) == pytest.approx(8.0)
    assert value(database, func.sum(MinuteSums.model_s)) == pytest.approx(1.0)
    assert contradictory(database, job) == []  # although sums of tenths depend on their order


def test_a_minute_in_which_only_time_was_spent_is_counted(database: Database, add_waiting_job: AddWaitingJob) -> None:
    job = add_waiting_job(documents=3, per_shard=3)
    write(database, take(database), timings=TIMINGS)
    add_timings(database, job, TIMINGS, at=datetime(2026, 1, 2, 23, 59, 59, 999000, UTC))

    first = "SELECT documents, failed, source_tokens, busy_s, model_s FROM v_throughput ORDER BY minute"
    assert rows(database, first) == [(0, 0, 0, 4.125, 4.0), (3, 0, 15, 4.125, 4.0)]
    assert contradictory(database, job) == []


def test_recording_twice_adds_once(database: Database, add_waiting_job: AddWaitingJob) -> None:
    job = add_waiting_job(documents=3, per_shard=3)
    work = take(database)

    for _ in range(2):  # as after a COMMIT whose answer was lost
        write(database, work, outcomes=[translated(), BROKE, DEADLY], timings=TIMINGS)

    assert number_of_rows(database, job)["batches"] == 1
    assert contradictory(database, job) == []


def test_a_stale_batch_adds_nothing(database: Database, add_waiting_job: AddWaitingJob) -> None:
    job = add_waiting_job(documents=3, per_shard=3)
    sleeper = take(database, lease_s=-1.0)
    deaths.expire(database)

    with pytest.raises(StaleLease):
        write(database, sleeper, outcomes=[translated(), BROKE, BROKE], timings=TIMINGS)

    assert set(number_of_rows(database, job).values()) == {0}


def test_retried_documents_are_no_failures_any_more(database: Database, add_waiting_job: AddWaitingJob) -> None:
    job = add_waiting_job(documents=4, per_shard=4, rejected=(3,))
    write(database, take(database), outcomes=[translated(), BROKE, DEADLY])

    retry(database, job)

    assert rows(database, "SELECT status, documents FROM v_failures") == [("rejected", 1)]
    assert contradictory(database, job) == []
    write(database, take(database), outcomes=[BROKE, translated()])
    assert rows(database, "SELECT status, documents FROM v_failures ORDER BY 1") == [("failed", 1), ("rejected", 1)]
    assert value(database, func.sum(MinuteSums.failed)) == 3  # of both attempts
    assert contradictory(database, job) == []


def test_cancelled_documents_are_no_failures(database: Database, add_waiting_job: AddWaitingJob) -> None:
    job = add_waiting_job(documents=4, per_shard=2)
    write(database, take(database), outcomes=[translated(), BROKE])

    cancel(database, job)

    assert rows(database, "SELECT status, documents FROM v_failures") == [("failed", 1)]
    assert contradictory(database, job) == []


BORDERS = [2**exponent for exponent in range(1, 12)] + [2**exponent - 1 for exponent in range(2, 12)]


@pytest.mark.parametrize("task", [Task.TRANSLATE, Task.SCORE])
def test_python_and_sql_put_a_document_into_the_same_bucket(
    database: Database, add_waiting_job: AddWaitingJob, task: Task
) -> None:
    """The recount is made in SQL. Perplexities at the very border of a bucket are the hardest."""
    means = [0.0, -1e-17, 1e6, 1e-9, *(bucket * math.log(2) / 8 for bucket in range(0, 260, 3))]
    cases = [(mean * tokens, tokens) for mean in means for tokens in (1, 3, 7)] + [(0.5, tokens) for tokens in BORDERS]
    spec = SCORE if task == Task.SCORE else None
    job = add_waiting_job(len(cases), 200, tokens=10, **({"spec": spec} if spec else {}))

    for start in range(0, len(cases), 200):
        some = cases[start : start + 200]
        if task == Task.SCORE:
            write(database, take(database), outcomes=[scored(*case) for case in some])
        else:
            write(database, take(database), outcomes=[translation(-nll, tokens, tokens) for nll, tokens in some])

    assert contradictory(database, job) == []
    lengths = sum(bucket_of(BucketMeasure.LENGTH, tokens) == 4 for _, tokens in cases)
    assert rows(database, "SELECT documents FROM v_measures WHERE measure = 'length' AND bucket = 4") == [(lengths,)]


def records() -> Sequence[Sequence[Record]]:
    """A document with a new id, one with an id that is taken, and two bad lines, the last with an id that is taken."""
    good = Document(1, "d1", False, 2, "x", None, 1, False)
    twice = Document(2, "d0", False, 3, "x", None, 1, False)
    bad = Rejected(3, None, False, 4, Reject.BAD_JSON, "no JSON")
    both = Rejected(4, "d1", False, 5, Reject.NO_TEXT, "no text")
    return [[good, twice, bad, both]]


def test_rejected_lines_are_counted_by_reason_when_they_are_written(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    job = add_waiting_job(documents=1)
    with database.writing() as connection:
        insert_batch(connection, job, records())

    assert rows(database, "SELECT status, error_code, documents FROM v_failures ORDER BY 2") == [
        ("rejected", "bad-json", 1),
        ("rejected", "duplicate-id", 2),
    ]
    assert contradictory(database, job) == []


def test_an_abandoned_ingest_leaves_no_failures(database: Database, add_job: AddJob, mixed_job: int) -> None:
    with database.writing() as connection:
        connection.execute(update(tables.Job).values(state=JobState.INGESTING))

    abandon(database, mixed_job, "given up")

    assert value(database, func.count(FailureCounts.status)) == 0


def test_a_pruned_job_leaves_no_rollup(database: Database, add_waiting_job: AddWaitingJob, finished_job: int) -> None:
    job = add_waiting_job(documents=3, per_shard=3)
    write(database, take(database), outcomes=[FLAGGED, BROKE, DEADLY], timings=TIMINGS)
    kept = number_of_rows(database, finished_job)
    assert all(number_of_rows(database, job).values())

    prune_jobs(database, [job])

    assert set(number_of_rows(database, job).values()) == {0}
    assert number_of_rows(database, finished_job) == kept


def test_a_flag_is_counted_once_whatever_becomes_of_the_job(database: Database, add_waiting_job: AddWaitingJob) -> None:
    job = add_waiting_job(documents=6, per_shard=3)
    late = take(database, lease_s=-1.0)
    deaths.expire(database)
    work = take(database)
    write(database, work, outcomes=[FLAGGED, translated("x", Flag.TRUNCATED), BROKE])
    write(database, work, outcomes=[FLAGGED, translated("x", Flag.TRUNCATED), BROKE])  # the COMMIT's answer was lost
    with pytest.raises(StaleLease):
        write(database, late, outcomes=[FLAGGED] * 3)
    retry(database, job)
    again = take(database)
    write(database, again, outcomes=[FLAGGED] * sum(map(len, again.batches)))
    cancel(database, job)

    assert rows(database, "SELECT flag, documents FROM v_flags ORDER BY 1") == [("number-changed", 2), ("truncated", 3)]
    with database.reading() as connection:
        assert dict(find_job(connection, str(job)).flags) == {"truncated": 3, "number-changed": 2}
    assert contradictory(database, job) == []


def test_by_phase_step_and_lane_the_steps_are_those_that_were_recorded(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    job = add_waiting_job(documents=2, per_shard=1)
    for _ in range(2):
        write(database, take(database), timings=TIMINGS)

    with database.reading() as connection:
        found = {by: summarize_steps(connection, job, by) for by in By}

    assert [(one.group, one.calls, one.rows, one.tokens, one.seconds) for one in found[By.LANE]] == [
        ("1/0", 16, 36, 104, 8.25)
    ]
    assert [(one.group, one.calls, one.seconds) for one in found[By.STEP]] == [
        ("0", 8, 5.0),
        ("1", 2, 0.5),
        ("2", 2, 0.5),
    ]
    assert [(one.group, one.calls, one.seconds) for one in found[By.PHASE]] == [
        ("decode", 10, 5.0),
        ("encode", 2, 2.0),
        ("prefill", 2, 1.0),
        ("queue", 2, 0.25),
    ]


def test_reports_of_timings_and_failures_read_neither_steps_nor_all_documents(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    job = add_waiting_job(documents=2, per_shard=2)
    write(database, take(database), outcomes=[BROKE, BROKE], timings=TIMINGS)
    with database.writing() as connection:
        connection.execute(Step.__table__.delete())
        connection.execute(update(FailureCounts).values(documents=7))

    with database.reading() as connection:
        assert all(summarize_steps(connection, job, by) for by in By)
        assert [one.documents for one in failures(connection, find_job(connection, str(job)))] == [7]


DAMAGES = [
    ("UPDATE phase_sums SET calls = calls + 1 WHERE phase = 'decode'", "phase_sums that differ from the recount: 1"),
    ("DELETE FROM step_sums WHERE step = 2", "step_sums that differ from the recount: 1"),
    ("UPDATE past_length_sums SET rows = 0", "past_length_sums that differ from the recount: 2"),
    ("UPDATE minute_sums SET source_tokens = 1", "minute_sums that differ from the recount: 1"),
    ("UPDATE minute_sums SET busy_s = busy_s + 0.001", "minute_sums that differ from the recount: 1"),
    ("UPDATE minute_sums SET model_s = 0", "minute_sums that differ from the recount: 1"),
    ("UPDATE measure_counts SET documents = 9 WHERE measure = 'length'", "measure_counts that differ from the recount"),
    ("UPDATE failure_counts SET documents = 9", "failure_counts that differ from the recount: 1 (failed engine-error"),
    ("UPDATE flag_counts SET documents = 2", "flag_counts that differ from the recount: 2 (number-changed"),
    ("DELETE FROM flag_counts WHERE flag = 'truncated'", "flag_counts that differ from the recount: 1 (truncated"),
    ("DELETE FROM failure_counts", "failure_counts that differ from the recount: 1"),
    ("UPDATE batches SET documents = 9", "the batches have documents 9"),
    ("UPDATE batches SET busy_s = 0", "the batches have busy_s 0"),
]


@pytest.mark.parametrize(("damage", "sentence"), DAMAGES)
def test_every_contradiction_of_a_rollup_is_found(
    database: Database, add_waiting_job: AddWaitingJob, damage: str, sentence: str
) -> None:
    job = add_waiting_job(documents=3, per_shard=3)
    write(database, take(database), outcomes=[translated(), FLAGGED, BROKE], timings=TIMINGS)
    assert contradictory(database, job) == []

    with database.writing() as connection:
        connection.execute(text(damage))

    assert sentence in "; ".join(contradictory(database, job))


def test_a_batch_is_recorded_at_the_time_of_its_results(database: Database, add_waiting_job: AddWaitingJob) -> None:
    """So that the minute of a result is that of its batch, and the recount finds the same."""
    add_waiting_job(documents=3, per_shard=3)
    write(database, take(database), timings=TIMINGS)

    times = {
        value(database, column)
        for column in (
            RecordedBatch.ended_at,
            func.min(RESULTS[Task.TRANSLATE].finished_at),
            func.max(RESULTS[Task.TRANSLATE].finished_at),
            func.max(Step.recorded_at),
        )
    }
    assert len(times) == 1
