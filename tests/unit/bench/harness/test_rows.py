"""From measured rates to result rows: the arithmetic and the JSON form, without running an engine."""

from dataclasses import replace

import pytest

from bench.harness.rows import MILLISECONDS, compare, equal_tokens, share_of_peak


def test_a_row_compares_the_medians_of_all_rounds():
    row = compare("int8-greedy", "ctranslate2", [100.0, 3_000.0, 3_200.0], [2_000.0, 1_500.0, 9_000.0])

    assert (row.ours, row.theirs, row.ratio) == (3_000.0, 2_000.0, 1.5)


def test_the_json_form_has_the_six_keys_that_every_benchmark_has():
    row = compare("fp32-greedy", "optimum", [1_234.567], [1_000.0])

    assert row.as_json() == {
        "work": "fp32-greedy",
        "peer": "optimum",
        "ours": 1_234.6,
        "theirs": 1_000.0,
        "unit": "tokens/s",
        "ratio": 1.235,
    }


def test_the_json_form_has_the_ratio_by_processor_time_where_that_was_measured():
    row = replace(compare("int8-greedy", "ctranslate2", [3.0], [2.0]), cpu_ratio=1.23456)

    assert row.as_json()["cpu_ratio"] == 1.235


def test_of_two_latencies_the_shorter_is_so_many_times_as_fast():
    row = replace(compare("latency-1-int8-greedy", "ctranslate2", [20.0], [50.0]), unit=MILLISECONDS)

    assert row.ratio == 2.5
    assert row.as_json()["unit"] == "ms"


def test_the_share_of_the_peak_is_the_flops_done_per_second_over_the_peak_flops():
    assert share_of_peak(1_000.0, flop_per_token=150e6, peak_gflops=600.0) == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("found", "wanted", "share"),
    [
        ([[1, 2, 3, 4]], [[1, 2, 3, 4]], 1.0),
        ([[1, 2, 9, 4]], [[1, 2, 3, 4]], 0.75),
        ([[1, 2]], [[1, 2, 3, 4]], 0.5),  # a token that one side lacks counts as different
        ([[1], [7, 7, 7]], [[1], [7, 7, 8]], 0.75),
        ([[]], [[]], 1.0),
    ],
)
def test_equal_tokens_are_counted_position_by_position(found, wanted, share):
    assert equal_tokens(found, wanted) == share
