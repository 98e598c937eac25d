"""What the page of a job says of its decoder steps follows from their cost, whichever way it goes."""

from collections.abc import Callable
from typing import Any

import pytest

from jobs.spec import Task
from jobs.store.report.timings.decoder_calls import DecoderCalls
from jobs.web.job_page.decoder import past_length_chart, slots_chart, step_chart

AUTO = {"cache": "auto", "batch_size": 32, "beam_size": None, "timing": "steps"}


def steps(ms_of: Callable[[int], float], rows_of: Callable[[int], float] = lambda step: 32.0) -> list[DecoderCalls]:
    """60 steps of 10 calls each."""
    return [DecoderCalls(step, 10, int(10 * rows_of(step)), ms_of(step) / 100) for step in range(1, 61)]


@pytest.mark.parametrize(
    ("options", "ms_of", "sentence"),
    [
        (
            AUTO,
            lambda step: 3.1 + step / 1000,
            "A step costs 3.1 ms at the start and 3.2 ms at the end: the cache works.",
        ),
        (
            AUTO,
            lambda step: 1.0 + step / 10,
            "A step costs 1.5 ms at the start and 6.6 ms at the end: it grows 4.4-fold, although the cache is on.",
        ),
        (
            AUTO | {"cache": "off"},
            lambda step: 1.0 + step / 10,
            "A step costs 1.5 ms at the start and 6.6 ms at the end: it grows 4.4-fold, because the cache is off and "
            "each step computes the whole prefix again.",
        ),
        (
            AUTO | {"cache": "off"},
            lambda step: 2.0,
            "A step costs 2.0 ms at the start and 2.0 ms at the end: it does not grow, though the cache is off; these "
            "texts are too short to show what a cache saves.",
        ),
        (
            AUTO | {"cache": "hybrid:8"},
            lambda step: 2.0,
            "A step costs 2.0 ms at the start and 2.0 ms at the end: the cost does not grow; the first 8 steps compute "
            "the whole prefix, those after them use the cache.",
        ),
    ],
)
def test_the_sentence_says_whether_the_cache_works(
    options: dict[str, Any], ms_of: Callable[[int], float], sentence: str
) -> None:
    assert step_chart(steps(ms_of), Task.TRANSLATE, options).sentence == sentence


def test_steps_with_few_rows_are_not_compared_with_full_ones() -> None:
    """Without a cache the cost grows until sentences end and rows leave: the last steps are cheap, not cached."""
    chart = step_chart(
        steps(lambda step: step if step <= 40 else 1.0, lambda step: 32.0 if step <= 40 else 2.0),
        Task.TRANSLATE,
        AUTO | {"cache": "off"},
    )

    assert chart.sentence.startswith("A step costs 3.5 ms at the start and 37.5 ms at step 40, the last with half")
    assert "it grows 10.7-fold, because the cache is off" in chart.sentence


@pytest.mark.parametrize(
    ("task", "options", "sentence"),
    [
        (Task.SCORE, {}, "This task reads known tokens and generates none, so it has no decoder steps."),
        (
            Task.TRANSLATE,
            AUTO | {"timing": "off"},
            "The job was submitted with --timing off, so no durations are stored.",
        ),
        (
            Task.TRANSLATE,
            AUTO | {"timing": "batches"},
            "Durations are summed by batch (--timing batches), so single steps are not known.",
        ),
        (Task.TRANSLATE, AUTO, "No decoder step was recorded yet."),
    ],
)
def test_without_steps_each_chart_says_why_it_is_empty(task: Task, options: dict[str, Any], sentence: str) -> None:
    for chart in (step_chart([], task, options), slots_chart([], task, options), past_length_chart([], task, options)):
        assert chart.is_empty
        assert chart.sentence == sentence


def test_of_many_steps_neighbours_are_drawn_together() -> None:
    many = [DecoderCalls(step, 10, 320, 0.01 * step) for step in range(1, 401)]
    chart = step_chart(many, Task.TRANSLATE, AUTO)

    assert list(chart.x)[:3] == [1, 4, 7]
    assert list(chart.series[0].values)[:2] == [2.0, 5.0]
    assert len(slots_chart(many, Task.TRANSLATE, AUTO).x) == len(chart.x)


def test_cached_positions_are_compared_range_by_range() -> None:
    lengths = [DecoderCalls(0, 10, 320, 0.031), DecoderCalls(32, 10, 300, 0.032), DecoderCalls(64, 10, 100, 0.033)]
    chart = past_length_chart(lengths, Task.TRANSLATE, AUTO)

    assert list(chart.x) == ["0-31", "32-63", "64-95"]
    assert chart.sentence == (
        "With 0-31 cached positions a step costs 3.1 ms, with 64-95 3.3 ms: hardly more (32 and 10 rows on average)."
    )
    off = past_length_chart(lengths, Task.TRANSLATE, AUTO | {"cache": "off"})
    assert off.sentence == "The cache is off, so no step attends to cached positions."


def test_slots_are_sentences_times_beams() -> None:
    half_full = steps(lambda step: 1.0, lambda step: 16.0)

    assert slots_chart(half_full, Task.TRANSLATE, AUTO).sentence == (
        "32 slots, 16.0 rows in flight on average: 50.0 % full. The fullest step has 16.0 rows."
    )
    four_beams = slots_chart(half_full, Task.TRANSLATE, AUTO | {"beam_size": 4})
    assert four_beams.sentence.startswith("128 slots, 16.0 rows in flight on average: 12.5 % full.")
    assert set(four_beams.series[1].values) == {128}


def test_more_rows_than_sentences_mean_that_the_model_has_beams() -> None:
    chart = slots_chart(steps(lambda step: 1.0, lambda step: 100.0), Task.TRANSLATE, AUTO)

    assert chart.sentence.startswith("128 slots, 100.0 rows")
