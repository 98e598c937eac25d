"""Tokens per second over the life of a job."""

from dataclasses import replace
from datetime import datetime

from jobs.store.report.timings.minutes import Interval, Intervals
from jobs.tasks.task import Task
from jobs.web.job_page.speed import speed_chart
from tests.summaries import RUNNING_JOB
from tests.unit.jobs.web.job_page.batches import batch, interval
from tests.unit.jobs.web.sentences import missing

DONE = replace(RUNNING_JOB, state="done", finished_at=RUNNING_JOB.read_at)  # 60,000 tokens in 100 s


def minute(number: int, tokens: int, failed: int = 0) -> Interval:
    return interval(number, failed=failed, source_tokens=3 * tokens, target_tokens=tokens)


def minutes(*some: Interval) -> Intervals:
    return Intervals(1, some)


def test_a_long_job_is_drawn_from_its_minutes_and_a_minute_without_results_is_0() -> None:
    of_job = minutes(minute(0, 600), minute(1, 6000), minute(2, 0), minute(3, 600, failed=2), minute(4, 60))

    chart = speed_chart(of_job, [], DONE)

    assert list(chart.series[0].values) == [10.0, 100.0, 0.0, 10.0, 1.0]
    assert list(chart.series[1].values) == [0, 0, 0, 2, 0]
    assert missing(chart.sentence, "600 tokens/s on average", "100 at best", "1 min 00 s", "2 documents failed") == []


def test_the_speed_is_that_of_an_interval() -> None:
    chart = speed_chart(Intervals(120, [minute(0, 7200), minute(120, 72000)]), [], DONE)

    assert list(chart.series[0].values) == [1.0, 10.0]
    assert chart.x_name == "time, 2 h a point"


def test_a_short_job_is_drawn_from_its_batches_second_by_second() -> None:
    chart = speed_chart(minutes(minute(0, 400)), [batch(0, 2), batch(2, 2)], DONE)

    assert list(chart.series[0].values)[:4] == [50.0, 50.0, 50.0, 50.0]
    assert chart.x_name == "time, 1 s a point"


def test_without_durations_minutes_are_drawn() -> None:
    sentence = speed_chart(minutes(minute(0, 600)), [batch(0, 0.0)], DONE).sentence

    assert missing(sentence, "600 tokens/s on average") == []


def test_while_a_job_runs_the_end_of_the_line_is_explained() -> None:
    sentence = speed_chart(minutes(minute(0, 600)), [], RUNNING_JOB).sentence

    assert "in hand" in sentence
    assert "in hand" not in speed_chart(minutes(minute(0, 600)), [], DONE).sentence


def test_reranking_is_measured_by_the_tokens_that_the_model_read() -> None:
    chart = speed_chart(minutes(minute(0, 600)), [], replace(DONE, task=Task.RERANK))

    assert list(chart.series[0].values) == [30.0]


def test_a_job_without_results_says_so() -> None:
    chart = speed_chart(minutes(), [], RUNNING_JOB)

    assert (chart.is_empty, "yet" in chart.sentence) == (True, True)
    assert "yet" not in speed_chart(minutes(), [], DONE).sentence


def test_a_chart_of_one_point_has_the_time_of_the_job() -> None:
    chart = speed_chart(minutes(minute(0, 600)), [], DONE)

    assert chart.window is not None
    start, stop = map(datetime.fromisoformat, chart.window)
    assert DONE.finished_at is not None
    assert (stop - start).total_seconds() <= 200
    assert start <= datetime.fromisoformat(chart.x[0]) <= stop
