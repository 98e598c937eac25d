"""Where the seconds of a job went."""

import pytest

from jobs.store.report.timings.steps import StepSummary
from jobs.web.job_page.seconds import phase_shares, phases_sentence, seconds_over_time
from tests.unit.jobs.web.job_page.batches import batch

PHASES = [
    StepSummary("decode", 100, 3200, 3200, 8.1, 0.81),
    StepSummary("encode", 10, 320, 3200, 1.2, 0.12),
    StepSummary("record", 5, 100, 0, 0.7, 0.07),
]


def test_the_sentence_names_the_phases_that_take_the_time() -> None:
    assert phases_sentence(PHASES, "steps", 20.0) == (
        "Decode takes 81.0 % and encode takes 12.0 % of the time; model calls are 93.0 % of it."
    )
    assert phases_sentence(PHASES, "steps", 5.0).endswith("Lanes work side by side: 10.0 s of work in 5.0 s.")


def test_without_timings_it_says_why() -> None:
    assert phases_sentence([], "steps", 1.0) == "No durations are stored yet."
    assert "--timing off" in phases_sentence([], "off", 1.0)


def test_each_phase_begins_where_the_one_before_it_ends() -> None:
    shares = phase_shares(PHASES)

    assert [share.offset for share in shares] == pytest.approx([0.0, 0.81, 0.93])
    assert [share.is_model for share in shares] == [True, True, False]


def test_a_batch_is_spread_over_the_seconds_that_it_took() -> None:
    chart = seconds_over_time([batch(0, 4), batch(0, 2, lane=1)], is_whole_job=True)
    model, other = (series.values for series in chart.series)

    assert list(model)[:4] == [1.5, 1.5, 0.75, 0.75]
    assert list(other)[:4] == [0.5, 0.5, 0.25, 0.25]
    assert chart.sentence == (
        "6.0 s of work in the job, 75.0 % of it in model calls; up to 2.0 lanes worked at a time."
    )


def test_a_window_of_days_has_no_more_bars_than_can_be_seen() -> None:
    chart = seconds_over_time([batch(hour * 3600, 100) for hour in range(100)], is_whole_job=False)

    assert len(chart.x) <= 61
    assert "the newest 100 batches" in chart.sentence


def test_without_durations_there_is_no_chart() -> None:
    chart = seconds_over_time([batch(0, 0.0)], is_whole_job=True)

    assert (chart.is_empty, chart.sentence) == (True, "No batch with durations was recorded.")
