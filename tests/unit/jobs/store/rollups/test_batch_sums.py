"""What a batch adds to the rollups."""

from datetime import UTC, datetime
from typing import Any

from jobs.outcome import StepTiming
from jobs.store.rollups import minutes_of
from jobs.tasks.task import Task
from tests.rows import batch_sums

NOW = datetime(2026, 11, 22, 12, 34, 56, 789000, UTC)
MINUTE = datetime(2026, 11, 22, 12, 34, tzinfo=UTC)


def timed(*timings: StepTiming) -> Any:
    return batch_sums(7, now=NOW, timings=timings)


def result(log_prob: float, source: int, target: int) -> dict[str, Any]:
    return {"log_prob": log_prob, "num_source_tokens": source, "num_target_tokens": target}


def without_job(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    assert {row["job_id"] for row in rows} <= {7}
    return [tuple(row.values())[1:] for row in rows]


def test_timings_are_summed_by_phase_and_decoder_calls_by_step() -> None:
    sums = timed(
        StepTiming("prefill", 0, 2, 20, 0, 0.5),
        StepTiming("decode", 1, 2, 2, 10, 0.25),
        StepTiming("encode", 0, 2, 20, 0, 1.0),
        StepTiming("decode", 2, 1, 1, 11, 0.25),
        StepTiming("decode", 1, 3, 3, 10, 0.5),
    )

    assert without_job(sums.phases()) == [
        ("decode", 3, 6, 6, 1.0),
        ("encode", 1, 2, 20, 1.0),
        ("prefill", 1, 2, 20, 0.5),
    ]
    assert without_job(sums.steps()) == [
        ("decode", 1, 2, 5, 5, 0.75),
        ("decode", 2, 1, 1, 1, 0.25),
        ("prefill", 0, 1, 2, 20, 0.5),
    ]


def test_past_lengths_are_rounded_down_and_sums_of_several_calls_are_left_out() -> None:
    sums = timed(
        StepTiming("decode", 1, 2, 2, 31, 0.25),
        StepTiming("decode", 2, 2, 2, 32, 0.25),
        StepTiming("decode", 3, 1, 1, 63, 0.5),
        StepTiming("decode", 0, 9, 9, 900, 9.0, calls=3),
        StepTiming("prefill", 0, 2, 20, 40, 0.5),
    )

    assert without_job(sums.past_lengths()) == [(0, 1, 2, 0.25), (32, 2, 3, 0.75)]


def test_the_row_of_a_batch_says_what_became_of_it_and_how_long_the_model_took() -> None:
    sums = batch_sums(
        7,
        now=NOW,
        results=[result(-1.0, 5, 4), result(-2.0, 6, 3)],
        failed=1,
        timings=[
            StepTiming("queue", 0, 3, 0, 0, 2.0),
            StepTiming("encode", 0, 3, 20, 0, 1.0),
            StepTiming("decode", 1, 3, 3, 1, 0.5, calls=4),
        ],
    )

    row = sums.batch()

    assert (row["documents"], row["failed"], row["source_tokens"], row["target_tokens"]) == (2, 1, 11, 7)
    assert (row["calls"], row["rows"], row["tokens"], row["busy_s"], row["model_s"]) == (6, 9, 23, 3.5, 1.5)
    assert without_job(minutes_of(row)) == [(MINUTE, 2, 1, 11, 7, 3.5, 1.5)]


def test_a_batch_without_a_new_document_adds_its_seconds_to_its_minute() -> None:
    sums = timed(StepTiming("encode", 0, 3, 20, 0, 1.0), StepTiming("record", 0, 3, 0, 0, 0.5))

    assert without_job(minutes_of(sums.batch())) == [(MINUTE, 0, 0, 0, 0, 1.5, 1.0)]


def test_a_batch_without_a_new_document_and_without_timings_adds_no_minute() -> None:
    assert minutes_of(timed().batch()) == []


def test_results_without_a_token_are_in_no_histogram() -> None:
    sums = batch_sums(7, now=NOW, results=[result(0.0, 0, 0), result(-0.7, 8, 1), result(-0.7, 8, 1)])

    assert without_job(sums.measures()) == [("length", 12, 2), ("perplexity", 8, 2)]


def test_scores_have_the_length_of_what_was_scored_and_rankings_have_no_measure() -> None:
    score = {"nll_sum": 7.0, "num_tokens": 10, "num_source_tokens": 99}
    ranking = {"num_tokens": 10, "num_computed": 20}

    assert without_job(batch_sums(7, now=NOW, task=Task.SCORE, results=[score]).measures()) == [
        ("length", 13, 1),
        ("perplexity", 8, 1),
    ]
    assert batch_sums(7, now=NOW, task=Task.RERANK, results=[ranking]).measures() == []
