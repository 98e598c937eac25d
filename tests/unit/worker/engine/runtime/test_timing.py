"""Either one timing per model call, or one sum per batch."""

import pytest

from jobs.errors import Stopped
from jobs.outcome import StepTiming
from jobs.tasks.shared_options import Timing
from worker.engine.runtime.run_context import RunContext
from worker.engine.runtime.timing import Stopwatch


def two_groups_of_rows(mode: Timing) -> list[StepTiming]:
    stopwatch = Stopwatch(mode)
    for rows in (4, 2):
        with stopwatch.measure("encode", rows=rows, tokens=rows * 7):
            pass
        for step in range(3):
            with stopwatch.measure("decode", step=step + 1, rows=rows, tokens=rows, past_length=step + 1):
                pass
    return stopwatch.timings


def test_every_call_is_a_step() -> None:
    timings = two_groups_of_rows(Timing.STEPS)

    assert [
        (timing.phase, timing.step, timing.rows, timing.tokens, timing.past_length, timing.calls) for timing in timings
    ] == [
        ("encode", 0, 4, 28, 0, 1),
        ("decode", 1, 4, 4, 1, 1),
        ("decode", 2, 4, 4, 2, 1),
        ("decode", 3, 4, 4, 3, 1),
        ("encode", 0, 2, 14, 0, 1),
        ("decode", 1, 2, 2, 1, 1),
        ("decode", 2, 2, 2, 2, 1),
        ("decode", 3, 2, 2, 3, 1),
    ]
    assert all(timing.seconds > 0 for timing in timings)


def test_the_timings_of_a_batch_are_the_sums_of_its_steps() -> None:
    steps, sums = two_groups_of_rows(Timing.STEPS), two_groups_of_rows(Timing.BATCHES)

    assert [(timing.phase, timing.calls) for timing in sums] == [("encode", 2), ("decode", 6)]
    for name in ("rows", "tokens", "past_length"):
        assert sum(getattr(timing, name) for timing in sums) == sum(getattr(timing, name) for timing in steps)


def test_nothing_is_measured_when_timing_is_off() -> None:
    assert two_groups_of_rows(Timing.OFF) == []


def test_a_run_measures_its_steps_and_stops_between_two_steps() -> None:
    asked = iter([False, True])
    run = RunContext(Stopwatch(Timing.BATCHES), lambda: next(asked))

    run.raise_if_stopped("steps")
    for step in range(3):
        with run.measure("decode", step=step, rows=2, tokens=2, past_length=step) as counted:
            counted.tokens = 3
    with pytest.raises(Stopped, match="steps"):
        run.raise_if_stopped("steps")

    (timing,) = run.timings
    assert (timing.phase, timing.tokens, timing.past_length, timing.calls) == ("decode", 9, 3, 3)
