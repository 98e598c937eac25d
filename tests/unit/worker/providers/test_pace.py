"""How many batches a lane computes as one: as many as were fast enough for it before."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.spec import JobSpec
from jobs.store.queue.batches import MAX_BATCHES_AT_ONCE, MAX_TOKENS
from jobs.tasks.task import Task
from jobs.tasks.translate import TranslateOptions
from worker.providers.local_engines import BATCH_S, MAX_JOBS, Pace


def job(number: int) -> JobSpec:
    return JobSpec(task=Task.TRANSLATE, model="m", model_revision=str(number), options=TranslateOptions())


SPEC = job(0)


@pytest.mark.parametrize(("seconds", "batches"), [(BATCH_S / 8, 4), (BATCH_S / 3.5, 3), (BATCH_S / 1.5, 1), (60, 1)])
def test_batches_that_were_fast_are_computed_as_one(seconds: float, batches: int) -> None:
    pace = Pace()
    assert pace.batches_at_once(SPEC) == 1

    pace.measured(SPEC, MAX_TOKENS, seconds)

    assert pace.batches_at_once(SPEC) == batches


def test_a_first_batch_that_warms_up_is_soon_forgotten_and_a_slow_one_counts_at_once() -> None:
    pace = Pace()
    found = []
    for seconds in (BATCH_S, BATCH_S / 8, BATCH_S / 8, BATCH_S):
        pace.measured(SPEC, MAX_TOKENS, seconds)
        found.append(pace.batches_at_once(SPEC))

    assert found == [1, 2, 4, 1]


def test_a_batch_of_which_nothing_was_computed_says_nothing() -> None:
    pace = Pace()
    pace.measured(SPEC, MAX_TOKENS, BATCH_S)

    pace.measured(SPEC, 0, 0.001)

    assert pace.batches_at_once(SPEC) == 1


def test_jobs_have_a_pace_each_and_old_ones_are_forgotten() -> None:
    pace = Pace()
    pace.measured(SPEC, MAX_TOKENS, BATCH_S / 8)
    assert pace.batches_at_once(job(-1)) == 1

    for number in range(MAX_JOBS):
        pace.measured(job(number + 1), MAX_TOKENS, BATCH_S)

    assert pace.batches_at_once(SPEC) == 1


@given(st.lists(st.tuples(st.integers(0, 100_000), st.floats(0, 1e6)), max_size=8))
def test_the_number_is_within_its_limits_whatever_was_measured(measured: list[tuple[int, float]]) -> None:
    pace = Pace()
    for tokens, seconds in measured:
        pace.measured(SPEC, tokens, seconds)

    assert 1 <= pace.batches_at_once(SPEC) <= MAX_BATCHES_AT_ONCE
