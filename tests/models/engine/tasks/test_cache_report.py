"""The measurement behind `kvjobs bench cache`; the speeds themselves are not tested."""

from typing import Any

import pytest

from jobs.errors import SpecError
from worker.engine.tasks.cache_report import measure_cache


@pytest.mark.parametrize("num_beams", [1, 3])
@pytest.mark.parametrize("target_tokens", [2, 12])
def test_both_ways_take_the_same_steps_and_generate_the_same_ids(tiny: Any, num_beams: int, target_tokens: int) -> None:
    report = measure_cache(
        tiny.model, tiny.sources, target_tokens=target_tokens, num_beams=num_beams, batch_size=4, repeats=1
    )

    assert report.is_equal
    assert (report.num_segments, report.target_tokens, report.num_different) == (10, target_tokens, 0)
    for one in (report.on, report.off):
        assert one.tokens_per_second == pytest.approx(10 * target_tokens / one.seconds)
        assert 0 < one.decode_s < one.seconds
        assert one.growth == one.late_s / one.early_s > 0
    assert report.ratio == report.off.seconds / report.on.seconds
    assert report.buffer_reuses > 0


def test_different_ids_are_counted(tiny: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from worker.engine.tasks import cache_report

    decode = cache_report._decode

    def wrong(decoder: Any, segments: Any, rules: Any, batch_size: int) -> Any:
        found, timings = decode(decoder, segments, rules, batch_size)
        has_cache = any(timing.past_length for timing in timings)
        return (found if has_cache else [(1,), *found[1:]]), timings

    monkeypatch.setattr(cache_report, "_decode", wrong)
    report = measure_cache(tiny.model, tiny.sources, target_tokens=4, repeats=1)

    assert (report.num_different, report.is_equal) == (1, False)


def test_a_model_without_a_cache_has_nothing_to_measure(open_tiny: Any) -> None:
    with pytest.raises(SpecError, match="no cache"):
        measure_cache(open_tiny("tiny-swish-tied", "never").model, [[5, 0]], target_tokens=4)


@pytest.mark.parametrize(("segments", "target_tokens"), [([[5, 0]], 65), ([[5] * 65], 4), ([[5, 0]], 1), ([], 4)])
def test_lengths_must_fit_the_positions(tiny: Any, segments: list[list[int]], target_tokens: int) -> None:
    with pytest.raises(SpecError, match="the model has 64 positions"):
        measure_cache(tiny.model, segments, target_tokens=target_tokens)
