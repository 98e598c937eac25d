"""Where the seconds of a job went."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from jobs.store.report.timings.minutes import WIDTHS_MIN, Interval, Intervals
from jobs.store.report.timings.steps import StepSummary
from jobs.web.job_page.seconds import phase_shares, phases_sentence, seconds_over_time
from tests.unit.jobs.web.job_page.batches import batch, interval
from tests.unit.jobs.web.sentences import missing

PHASES = [
    StepSummary("decode", 100, 3200, 3200, 8.1, 0.81),
    StepSummary("encode", 10, 320, 3200, 1.2, 0.12),
    StepSummary("record", 5, 100, 0, 0.7, 0.07),
]


def test_the_sentence_names_the_phases_that_take_the_time() -> None:
    alone, side_by_side = phases_sentence(PHASES, "steps", 20.0), phases_sentence(PHASES, "steps", 5.0)

    assert missing(alone, "Decode takes 81.0 %", "encode takes 12.0 %", "93.0 %") == []
    assert "record" not in alone
    assert missing(side_by_side, "10.0 s of work in 5.0 s") == []
    assert "side by side" not in alone


def test_without_timings_it_says_why() -> None:
    assert "yet" in phases_sentence([], "steps", 1.0)
    assert "--timing off" in phases_sentence([], "off", 1.0)


def test_each_phase_begins_where_the_one_before_it_ends() -> None:
    shares = phase_shares(PHASES)

    assert [share.offset for share in shares] == pytest.approx([0.0, 0.81, 0.93])
    assert [share.is_model for share in shares] == [True, True, False]


def test_a_part_of_a_phase_has_its_colour_and_says_which_part_it_is() -> None:
    whole, *parts = phase_shares([StepSummary(f"decode{part}", 1, 1, 1, 1.0, 0.3) for part in ("", ".via", ".terms")])

    assert {part.color for part in parts} == {whole.color}
    assert all(part.is_model and part.meaning.startswith(f"{whole.meaning}; ") for part in parts)
    assert len({part.meaning for part in parts}) == 2


def test_a_batch_is_spread_over_the_seconds_that_it_took() -> None:
    chart = seconds_over_time(Intervals(1, [interval(0, busy_s=6.0)]), [batch(0, 4), batch(0, 2, lane=1)])
    model, other = (series.values for series in chart.series)

    assert list(model)[:4] == [1.5, 1.5, 0.75, 0.75]
    assert list(other)[:4] == [0.5, 0.5, 0.25, 0.25]
    assert missing(chart.sentence, "6.0 s of work", "75.0 %", "up to 2.0 lanes") == []


def test_a_window_of_days_has_no_more_bars_than_can_be_seen() -> None:
    chart = seconds_over_time(Intervals(60, []), [batch(hour * 3600, 100) for hour in range(100)])

    assert len(chart.x) <= 61


def test_a_long_job_is_drawn_from_its_minutes_and_a_minute_without_work_is_0() -> None:
    worked = [interval(0, busy_s=120.0, model_s=90.0), interval(2), interval(4, busy_s=240.0, model_s=240.0)]

    chart = seconds_over_time(Intervals(2, worked), [])

    assert [list(series.values) for series in chart.series] == [[0.75, 0.0, 2.0], [0.25, 0.0, 0.0]]
    assert chart.x_name == "time, 2 min a bar"
    assert missing(chart.sentence, "6 min 00 s of work", "91.6 %", "up to about 2 lanes") == []


def test_of_a_long_job_the_number_of_lanes_at_work_is_not_told_more_exactly_than_it_is_known() -> None:
    """A lane that ends three batches of 90 s within 240 s did not work for more than these."""
    for busy_s, lanes in ((270.0, "about 1 lane "), (2000.0, "about 8 lanes "), (60.0, "0.2 lanes ")):
        chart = seconds_over_time(Intervals(4, [interval(0, busy_s=busy_s)]), [])

        assert f"up to {lanes}" in chart.sentence


SECONDS = st.floats(0.0, 1000.0)
WORKED = st.builds(lambda busy_s, share: interval(0, busy_s=busy_s, model_s=busy_s * share), SECONDS, st.floats(0, 1))


@given(st.lists(WORKED, max_size=180), st.sampled_from(WIDTHS_MIN))
def test_the_bars_of_a_long_job_add_up_to_its_minutes(worked: list[Interval], width_min: int) -> None:
    assume(any(one.busy_s for one in worked))
    chart = seconds_over_time(Intervals(width_min, worked), [])

    added = [60 * width_min * sum(float(value or 0.0) for value in series.values) for series in chart.series]
    sums = [sum(one.model_s for one in worked), sum(one.busy_s - one.model_s for one in worked)]
    rounded = 0.0005 * 60 * width_min * len(worked)  # a figure of the chart has three decimals
    assert added == [pytest.approx(one, abs=rounded + 1e-6) for one in sums]


def test_without_durations_there_is_no_chart() -> None:
    for batches in ([], [batch(0, 0.0)]):
        chart = seconds_over_time(Intervals(1, [interval(0)]), batches)

        assert (chart.is_empty, bool(chart.sentence)) == (True, True)
