import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.errors import SpecError
from jobs.position_ranges import PositionRanges

POSITIONS = st.sets(st.integers(0, 60))


def positions_of(ranges: PositionRanges) -> set[int]:
    return {position for start, stop in ranges.ranges for position in range(start, stop)}


@given(st.lists(POSITIONS, max_size=4))
def test_ranges_hold_the_positions_that_were_added_and_as_few_ranges_as_that_takes(added: list[set[int]]) -> None:
    ranges = PositionRanges()
    for some in added:
        ranges = ranges.with_positions(some)

    expected = set[int]().union(*added)
    assert positions_of(ranges) == expected
    assert len(ranges.ranges) == sum(position + 1 not in expected for position in expected)


@given(POSITIONS)
def test_a_position_is_in_a_range_or_in_a_gap(positions: set[int]) -> None:
    ranges = PositionRanges().with_positions(positions)
    in_gaps = {n for start, stop in ranges.gaps() for n in range(start, 100 if stop is None else stop)}

    assert in_gaps == set(range(100)) - positions


@given(POSITIONS)
def test_written_ranges_are_read_as_they_were(positions: set[int]) -> None:
    ranges = PositionRanges().with_positions(positions)

    assert PositionRanges.parse(str(ranges)) == ranges


@pytest.mark.parametrize("written", ["5", "5-5", "7-5", "0-5,5-9", "4-6,1-2", "0-5,", "a-b", "0-5;7-9", "-1-5", "0-٥"])
def test_a_text_that_is_no_ranges_is_refused(written: str) -> None:
    with pytest.raises(SpecError):
        PositionRanges.parse(written)
