"""The measurement behind `kvjobs bench cache`; the speeds themselves are not tested."""

from typing import Any

import pytest

from jobs.errors import SpecError
from worker.engine.causal.native.model import NativeCausal
from worker.engine.runtime.run_context import RunContext
from worker.engine.tasks.cache_report import ContinuationWork, TranslationWork, measure_cache
from worker.models.registry import BUNDLED, DEFAULT_CAUSAL


@pytest.mark.parametrize("num_beams", [1, 3])
@pytest.mark.parametrize("target_tokens", [2, 12])
def test_both_ways_take_the_same_steps_and_generate_the_same_ids(tiny: Any, num_beams: int, target_tokens: int) -> None:
    work = TranslationWork(tiny.model, tiny.sources, num_beams=num_beams, batch_size=4)

    report = measure_cache(work, target_tokens=target_tokens, num_beams=num_beams, batch_size=4, repeats=1)

    assert report.is_equal
    assert (report.num_segments, report.target_tokens, report.num_different) == (10, target_tokens, 0)
    for one in (report.on, report.off):
        assert one.tokens_per_second == pytest.approx(10 * target_tokens / one.seconds)
        assert 0 < one.decode_s < one.seconds
        assert one.growth == one.late_s / one.early_s > 0
    assert report.ratio == report.off.seconds / report.on.seconds
    assert report.buffer_reuses > 0


def test_different_ids_are_counted(tiny: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run = TranslationWork.run

    def wrong(self: TranslationWork, mode: str, num_tokens: int, context: RunContext) -> list[tuple[int, ...]]:
        found = run(self, mode, num_tokens, context)
        return found if mode == "on" else [(1,), *found[1:]]

    monkeypatch.setattr(TranslationWork, "run", wrong)
    report = measure_cache(TranslationWork(tiny.model, tiny.sources), target_tokens=4, repeats=1)

    assert (report.num_different, report.is_equal) == (1, False)


def test_prompts_are_continued_both_ways_over_the_same_steps() -> None:
    model = NativeCausal.open(BUNDLED[DEFAULT_CAUSAL])
    work = ContinuationWork(model, [[7, 8, 9], [10, 11, 12]])

    report = measure_cache(work, target_tokens=30, repeats=2)

    assert report.is_equal
    assert report.kv_bytes > 0
    for one in (report.on, report.off):
        assert len(one.step_s) == 30
        assert one.early_s == pytest.approx(sum(one.step_s[1:6]) / 5, rel=0.9)  # medians of means, and means of medians
        assert one.seconds > one.decode_s > 0
    with pytest.raises(SpecError, match=r"3 tokens .*1023 .*1024"):
        measure_cache(work, target_tokens=1_023)


def test_a_model_without_a_cache_has_nothing_to_measure(open_tiny: Any) -> None:
    with pytest.raises(SpecError, match="no cache"):
        TranslationWork(open_tiny("tiny-swish-tied", "never").model, [[5, 0]])


@pytest.mark.parametrize(("segments", "target_tokens"), [([[5, 0]], 65), ([[5] * 65], 4), ([[5, 0]], 1), ([], 4)])
def test_lengths_must_fit_the_positions(tiny: Any, segments: list[list[int]], target_tokens: int) -> None:
    with pytest.raises(SpecError, match="64 positions"):
        measure_cache(TranslationWork(tiny.model, segments), target_tokens=target_tokens)
