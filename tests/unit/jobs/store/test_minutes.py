"""The width of the intervals to which the minutes of a job are added up."""

from hypothesis import given
from hypothesis import strategies as st

from jobs.store.report.timings.minutes import MOST_INTERVALS, WIDTHS_MIN, width_for

YEARS = 3 * 366 * 24 * 60  # three, in minutes


@given(st.integers(1, YEARS), st.floats(0, WIDTHS_MIN[-1] * 60))
def test_intervals_are_as_narrow_as_their_number_and_the_batches_allow(minutes: int, at_least_s: float) -> None:
    width = width_for(minutes, at_least_s)

    def is_allowed(width: int) -> bool:
        return minutes / width <= MOST_INTERVALS and 60 * width >= at_least_s

    assert is_allowed(width)
    assert not any(is_allowed(narrower) for narrower in WIDTHS_MIN if narrower < width)


def test_there_is_a_widest_interval() -> None:
    assert width_for(100 * YEARS, 0.0) == width_for(1, 1e9) == WIDTHS_MIN[-1]
