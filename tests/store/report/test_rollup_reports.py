"""What the page of a job reads of its rollups."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import insert

from jobs.buckets import BucketMeasure
from jobs.outcome import Score, StepTiming
from jobs.store.database import Database
from jobs.store.report.timings.histograms import histogram
from jobs.store.report.timings.minutes import MOST_INTERVALS, intervals_of_job
from jobs.store.report.timings.recent_batches import recent_batches
from jobs.store.report.timings.steps import calls_by_past_length, calls_by_step
from jobs.store.schema.rollup_tables import MinuteSums
from jobs.store.schema.states import DocumentStatus
from jobs.tasks.score import ScoreOptions
from jobs.tasks.task import Task
from tests.rows import AddJob, Line, add_timings


def test_results_and_failures_are_counted_by_minute(database: Database, add_job: AddJob) -> None:
    failed = Line("c", status=DocumentStatus.FAILED, error=("engine-error", "it broke"))
    job_id = add_job(Line("a", "甲"), Line("b", "乙"), failed)

    with database.reading() as connection:
        intervals = intervals_of_job(connection, job_id)
        assert not intervals_of_job(connection, job_id + 1).all
    (minute,) = intervals.all
    assert (minute.documents, minute.failed, minute.source_tokens, minute.target_tokens) == (2, 1, 20, 20)
    assert minute.start.tzinfo
    assert (minute.start.second, intervals.width_s) == (0, 60)


def test_the_seconds_of_a_minute_are_those_of_its_batches(database: Database, finished_job: int) -> None:
    for lane in (0, 1):
        timings = [StepTiming("decode", 1, 1, 1, 0, 0.5), StepTiming("record", 0, 1, 0, 0, 0.25)]
        add_timings(database, finished_job, timings, lane)

    with database.reading() as connection:
        minutes = intervals_of_job(connection, finished_job).all
    assert sum(one.busy_s for one in minutes) == 1.5
    assert sum(one.model_s for one in minutes) == 1.0


FIRST = datetime(2026, 11, 22, 23, 58, tzinfo=UTC)


def add_minutes(database: Database, job_id: int, *numbers: int) -> None:
    """Minutes of a job, so many after `FIRST`: a document, 2 and 3 tokens, 4 and 1 seconds each."""
    sums = {"documents": 1, "failed": 0, "source_tokens": 2, "target_tokens": 3, "busy_s": 4.0, "model_s": 1.0}
    rows = [{"job_id": job_id, "minute": FIRST + timedelta(minutes=number), **sums} for number in numbers]
    with database.writing() as connection:
        connection.execute(insert(MinuteSums), rows)


def test_minutes_are_added_up_to_intervals_without_gaps(database: Database, add_job: AddJob) -> None:
    job_id, other = add_job(Line("a")), add_job(Line("a"))
    add_minutes(database, job_id, 0, 4, 5, 6, 16)
    add_minutes(database, other, 1)

    with database.reading() as connection:
        intervals = intervals_of_job(connection, job_id, at_least_s=250.0)

    assert intervals.width_min == 5
    assert [(one.start - FIRST) // timedelta(minutes=1) for one in intervals.all] == [0, 5, 10, 15]
    assert [one.documents for one in intervals.all] == [2, 2, 0, 1]
    assert [(one.source_tokens, one.target_tokens) for one in intervals.all] == [(4, 6), (4, 6), (0, 0), (2, 3)]
    assert [(one.busy_s, one.model_s) for one in intervals.all] == [(8.0, 2.0), (8.0, 2.0), (0.0, 0.0), (4.0, 1.0)]


@pytest.mark.parametrize("total", [180, 181, 6000, 50_000])
def test_a_job_is_covered_from_its_first_minute_to_its_last_however_long_it_is(
    database: Database, add_job: AddJob, total: int
) -> None:
    job_id = add_job(Line("a"))
    numbers = sorted({0, total - 1, *range(0, total, 97)})
    add_minutes(database, job_id, *numbers)

    with database.reading() as connection:
        intervals = intervals_of_job(connection, job_id)

    assert len(intervals.all) <= MOST_INTERVALS
    assert intervals.all[0].start == FIRST
    last = FIRST + timedelta(minutes=total - 1)
    assert intervals.all[-1].start <= last < intervals.all[-1].start + timedelta(seconds=intervals.width_s)
    assert sum(one.documents for one in intervals.all) == len(numbers)
    assert sum(one.busy_s for one in intervals.all) == 4.0 * len(numbers)
    assert intervals.all[0].documents > 0 < intervals.all[-1].documents


def test_decoder_calls_are_summed_by_step_and_by_past_length(database: Database, finished_job: int) -> None:
    timings = [
        StepTiming("encode", 0, 3, 30, 0, 0.4),
        StepTiming("decode", 1, 3, 3, 5, 0.02),
        StepTiming("decode", 1, 1, 1, 40, 0.04),
        StepTiming("decode", 2, 3, 3, 6, 0.03),
    ]
    add_timings(database, finished_job, timings)

    with database.reading() as connection:
        steps = calls_by_step(connection, finished_job)
        lengths = calls_by_past_length(connection, finished_job)
    assert [(one.key, one.calls, one.rows, round(one.mean_ms)) for one in steps] == [(1, 2, 4, 30), (2, 1, 3, 30)]
    assert [(one.key, one.calls) for one in lengths] == [(0, 2), (32, 1)]


def test_a_histogram_has_every_bucket_between_the_first_and_the_last(database: Database, add_job: AddJob) -> None:
    scores = [Score(nll_sum=nll, num_tokens=10, num_words=1, num_bytes=1) for nll in (20.0, 20.0, 23.0)]
    job_id = add_job(
        *(Line(f"d{at}", result=score) for at, score in enumerate(scores)), task=Task.SCORE, options=ScoreOptions()
    )

    with database.reading() as connection:
        buckets = histogram(connection, job_id, BucketMeasure.PERPLEXITY)
        assert histogram(connection, job_id + 1, BucketMeasure.PERPLEXITY) == []
    assert [bucket.documents for bucket in buckets] == [2, 0, 0, 1]
    assert [bucket.stop for bucket in buckets[:-1]] == [bucket.start for bucket in buckets[1:]]


def test_the_newest_batches_come_oldest_first(database: Database, finished_job: int) -> None:
    timings = [StepTiming("decode", 1, 1, 1, 0, 0.5), StepTiming("record", 0, 1, 0, 0, 0.1)]
    for lane in (0, 1, 2):
        add_timings(database, finished_job, timings, lane)

    with database.reading() as connection:
        batches = recent_batches(connection, finished_job, limit=2)
    assert [batch.lane for batch in batches] == [1, 2]
    assert (round(batches[0].busy_s, 3), round(batches[0].model_s, 3)) == (0.6, 0.5)
    assert (batches[0].ended_at - batches[0].started_at).total_seconds() > 0.59
