"""What the page of a job says of its decoder steps follows from their cost, whichever way it goes."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from jobs.store.report.timings.steps import DecoderCalls
from jobs.tasks.task import Task
from jobs.web.job_page.decoder import past_length_chart, slots_chart, step_chart
from tests.unit.jobs.web.sentences import missing

AUTO = {"cache": "auto", "batch_size": 32, "beam_size": None, "timing": "steps"}


def steps(ms_of: Callable[[int], float], rows_of: Callable[[int], float] = lambda step: 32.0) -> list[DecoderCalls]:
    """60 steps of 10 calls each."""
    return [DecoderCalls(step, 10, int(10 * rows_of(step)), ms_of(step) / 100) for step in range(1, 61)]


def growing(step: int) -> float:
    return 1.0 + step / 10


def flat(step: int) -> float:
    return 3.102 + step / 1000  # rounds to three digits in the same way whichever order a sum is taken in


STEADY, GROWN, NO_CACHE, TOO_SHORT = "the cache works", "although the cache is on", "the cache is off", "too short"


@pytest.mark.parametrize(
    ("cache", "ms_of", "facts", "not_said"),
    [
        ("auto", flat, ("3.11 ms", "3.16 ms", STEADY), ("fold",)),
        ("auto", growing, ("1.50 ms", "6.60 ms", "4.40-fold", GROWN), (STEADY,)),
        ("off", growing, ("1.50 ms", "6.60 ms", "4.40-fold", NO_CACHE), (STEADY, GROWN)),
        ("off", flat, ("3.11 ms", "does not grow", NO_CACHE, TOO_SHORT), (STEADY, "fold")),
        ("hybrid:8", flat, ("does not grow", "first 8 steps"), (STEADY, NO_CACHE)),
        ("hybrid:8", growing, ("the cost grows", "first 8 steps"), (GROWN, NO_CACHE)),
    ],
)
def test_the_sentence_says_whether_the_cache_works(
    cache: str, ms_of: Callable[[int], float], facts: Sequence[str], not_said: Sequence[str]
) -> None:
    sentence = step_chart(steps(ms_of), Task.TRANSLATE, AUTO | {"cache": cache}).sentence

    assert missing(sentence, *facts) == []
    assert [words for words in not_said if words in sentence] == []


def test_steps_with_few_rows_are_not_compared_with_full_ones() -> None:
    """Without a cache the cost grows until sentences end and rows leave: the last steps are cheap, not cached."""
    chart = step_chart(
        steps(lambda step: step if step <= 40 else 1.0, lambda step: 32.0 if step <= 40 else 2.0),
        Task.TRANSLATE,
        AUTO | {"cache": "off"},
    )

    assert missing(chart.sentence, "3.50 ms", "37.5 ms", "step 40", "10.7-fold", NO_CACHE) == []


@pytest.mark.parametrize(
    ("task", "options", "reason"),
    [
        (Task.SCORE, {}, "generates none"),
        (Task.TRANSLATE, AUTO | {"timing": "off"}, "--timing off"),
        (Task.TRANSLATE, AUTO | {"timing": "batches"}, "--timing batches"),
        (Task.TRANSLATE, AUTO, "recorded yet"),
    ],
)
def test_without_steps_each_chart_says_why_it_is_empty(task: Task, options: dict[str, Any], reason: str) -> None:
    for chart in (step_chart([], task, options), slots_chart([], task, options), past_length_chart([], task, options)):
        assert chart.is_empty
        assert reason in chart.sentence


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
    assert missing(chart.sentence, "0-31", "3.10 ms", "64-95", "3.30 ms", "hardly more", "32.0 and 10.0 rows") == []
    off = past_length_chart(lengths, Task.TRANSLATE, AUTO | {"cache": "off"})
    assert NO_CACHE.lower() in off.sentence.lower()


def test_slots_are_sentences_times_beams() -> None:
    half_full = steps(lambda step: 1.0, lambda step: 16.0)

    one_beam = slots_chart(half_full, Task.TRANSLATE, AUTO)
    assert missing(one_beam.sentence, "32 slots", "16.0 rows", "50.0 % full") == []
    four_beams = slots_chart(half_full, Task.TRANSLATE, AUTO | {"beam_size": 4})
    assert missing(four_beams.sentence, "128 slots", "16.0 rows", "12.5 % full") == []
    assert set(four_beams.series[1].values) == {128}


def test_more_rows_than_sentences_mean_that_the_model_has_beams() -> None:
    chart = slots_chart(steps(lambda step: 1.0, lambda step: 100.0), Task.TRANSLATE, AUTO)

    assert set(chart.series[1].values) == {128}
    assert "100 rows" in chart.sentence
