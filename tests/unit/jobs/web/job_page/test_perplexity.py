"""The threshold of perplexity: how many documents pass, and the command that keeps them."""

import math

import pytest

from jobs.buckets import BucketMeasure, bounds_of_bucket
from jobs.store.report.timings.histograms import Bucket
from jobs.store.where.condition import Condition
from jobs.tasks.task import Task
from jobs.web.job_page.perplexity import export_command, perplexity_chart, threshold_data, threshold_of, written
from tests.unit.jobs.web.sentences import missing


def bucket(number: int, documents: int) -> Bucket:
    return Bucket(*bounds_of_bucket(BucketMeasure.PERPLEXITY, number), documents)


BUCKETS = [bucket(16, 60), bucket(17, 0), bucket(18, 30), bucket(19, 10)]  # perplexities from 4 to 5.66


def test_at_the_end_of_a_bucket_the_count_is_exact() -> None:
    threshold = threshold_of(7, Task.SCORE, BUCKETS, float(written(BUCKETS[2].stop, 6)))

    assert threshold
    assert (threshold.at_least, threshold.at_most) == (90, 90)
    assert missing(threshold.sentence, "90 of 100 documents", "90.0 %", "5.18736") == []
    assert threshold.num_buckets == 3
    assert threshold.command == "kvjobs export 7 --where 'perplexity < 5.18736' --format original"


def test_within_a_bucket_both_bounds_are_said() -> None:
    threshold = threshold_of(7, Task.SCORE, BUCKETS, 5.0)

    assert threshold
    assert (threshold.at_least, threshold.at_most) == (60, 90)
    assert missing(threshold.sentence, "60 and 90 of 100 documents", "below 5;") == []
    assert threshold.num_buckets == 2


@pytest.mark.parametrize(("value", "passing"), [(0.5, 0), (4.0, 0), (4.5, 60), (1e9, 100)])
def test_within_an_empty_bucket_and_outside_of_all_the_count_is_exact(value: float, passing: int) -> None:
    threshold = threshold_of(7, Task.SCORE, BUCKETS, value)

    assert threshold
    assert (threshold.at_least, threshold.at_most) == (passing, passing)


def test_first_the_threshold_stands_where_nine_in_ten_pass() -> None:
    threshold = threshold_of(7, Task.SCORE, BUCKETS, None)

    assert threshold
    assert threshold.at_least == 90


def test_the_last_bucket_there_can_be_has_no_end() -> None:
    buckets = [bucket(255, 5)]
    threshold = threshold_of(7, Task.SCORE, buckets, None)

    assert threshold
    assert math.isfinite(threshold.value)
    assert threshold_data(7, Task.SCORE, buckets)["stops"] == [None]


@pytest.mark.parametrize("task", [Task.SCORE, Task.TRANSLATE])
def test_the_condition_of_the_command_can_be_parsed(task: Task) -> None:
    condition = export_command(7, task, "4.5").split("'")[1]

    assert Condition.parse(condition)
    if task is Task.TRANSLATE:
        assert condition == "log_prob > -1.50408 * num_target_tokens"


def test_without_a_histogram_the_chart_says_why() -> None:
    assert "ranking" in perplexity_chart([], Task.RERANK, None).sentence
    assert "yet" in perplexity_chart([], Task.SCORE, None).sentence
    assert threshold_of(7, Task.SCORE, [], None) is None


def test_the_sentence_names_where_most_documents_are() -> None:
    sentence = perplexity_chart(BUCKETS, Task.SCORE, None).sentence

    assert missing(sentence, "half of 100 documents are below 4.36", "95 % below 5.66") == []
