"""What the page of models says of measurements of the cache."""

from dataclasses import replace

import pytest

from jobs.text.formatting import precise
from jobs.web.pages.models import MOST_POINTS, measured_caches, steps_chart
from tests.cache_reports import MEASURED
from tests.unit.jobs.web.sentences import missing


def test_the_chart_has_a_point_for_each_step_with_the_cache_and_without() -> None:
    chart = steps_chart(replace(MEASURED, id=7))

    assert (chart.id, list(chart.x), chart.x_name, chart.y_name) == (
        "cache-7-steps",
        [1, 2, 3],
        "number of the step",
        "ms",
    )
    assert [(one.name, list(one.values)) for one in chart.series] == [
        ("with the cache", [100.0, 100.0, 110.0]),
        ("without", [200.0, 400.0, 600.0]),
    ]
    assert missing(chart.sentence, "100 ms at the start", "110 ms at the end", "without it 400 ms and 600 ms") == []


def test_neighbours_of_many_steps_are_one_point() -> None:
    steps = [(0.001, 0.001 * step) for step in range(2 * MOST_POINTS + 1)]

    chart = steps_chart(replace(MEASURED, steps=steps))

    assert chart.x_name == "number of the step, mean of 3"
    assert list(chart.x[:3]) == [1, 4, 7]
    assert list(chart.series[1].values[:2]) == [1.0, 4.0]
    assert len(chart.x) == len(chart.series[0].values) <= MOST_POINTS


def test_a_measurement_without_steps_has_no_chart() -> None:
    assert steps_chart(replace(MEASURED, steps=())).is_empty


@pytest.mark.parametrize(
    ("changed", "work"),
    [
        ({}, "4 segments of 8 tokens in batches of 2; median of 3"),
        ({"num_beams": 3}, "4 segments of 8 tokens in batches of 2, 3 beams; median of 3"),
        ({"kind": "causal", "num_sequences": 1, "repeats": 1}, "1 prompt of 8 tokens in batches of 2; once"),
    ],
)
def test_what_was_measured_is_one_line(changed: dict[str, object], work: str) -> None:
    (found,) = measured_caches([replace(MEASURED, **changed)], [], lambda _model, _report: False)  # type: ignore[arg-type]

    assert found["work"] == work


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0.020612, "0.0206 s"), (1.6915, "1.69 s"), (59.9, "59.9 s"), (65.2, "1 min 05 s")]
)
def test_short_durations_have_three_digits(seconds: float, shown: str) -> None:
    assert precise(seconds) == shown
