"""Bars of equal width in time."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.store.report.timings.recent_batches import BatchSummary
from jobs.web.job_page.bars import spread, wide_enough_for, width_name
from tests.unit.jobs.web.job_page.batches import batch

BATCHES = st.builds(batch, st.floats(0.0, 1_000_000.0), st.floats(0.001, 10_000.0))


@given(st.lists(BATCHES, min_size=1, max_size=30))
def test_the_bars_add_up_to_the_batches(batches: list[BatchSummary]) -> None:
    bars = spread(batches, lambda one: (one.model_s, one.busy_s, 1.0))

    sums = [math.fsum(column) for column in zip(*bars.sums, strict=True)]
    expected = [math.fsum(one.model_s for one in batches), math.fsum(one.busy_s for one in batches), len(batches)]
    assert sums == [pytest.approx(one, rel=1e-6) for one in expected]


def test_a_bar_of_minutes_is_as_wide_as_some_batches_are_long() -> None:
    """A batch counts in the minute of its end, with the seconds before."""
    assert wide_enough_for([batch(0, 30.0), batch(30, 50.0), batch(80, 0.0)]) == 160.0
    assert wide_enough_for([]) == wide_enough_for([batch(0, 0.0)]) == 0.0


@pytest.mark.parametrize(
    ("seconds", "name"), [(1, "1 s"), (30, "30 s"), (60, "1 min"), (900, "15 min"), (7200, "2 h"), (604800, "7 d")]
)
def test_a_width_is_named_by_its_largest_unit(seconds: int, name: str) -> None:
    assert width_name(seconds) == name
