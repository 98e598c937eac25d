"""What the page of a job reads of its rollups."""

from jobs.buckets import Measure
from jobs.outcome import Score, StepTiming
from jobs.spec import ScoreOptions, Task
from jobs.store.database import Database
from jobs.store.report.timings.decoder_calls import calls_by_past_length, calls_by_step
from jobs.store.report.timings.histograms import histogram
from jobs.store.report.timings.minutes import minutes_of_job
from jobs.store.report.timings.recent_batches import recent_batches
from jobs.store.schema.states import DocumentStatus
from tests.rows import AddJob, Line, add_timings


def test_results_and_failures_are_counted_by_minute(database: Database, add_job: AddJob) -> None:
    failed = Line("c", status=DocumentStatus.FAILED, error=("engine-error", "it broke"))
    job_id = add_job(Line("a", "甲"), Line("b", "乙"), failed)

    with database.reading() as connection:
        (minute,) = minutes_of_job(connection, job_id)
    assert (minute.documents, minute.failed, minute.source_tokens, minute.target_tokens) == (2, 1, 20, 20)
    assert minute.minute.tzinfo
    assert minute.minute.second == 0


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
        buckets = histogram(connection, job_id, Measure.PERPLEXITY)
        assert histogram(connection, job_id + 1, Measure.PERPLEXITY) == []
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
