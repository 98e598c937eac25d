"""Memory and time of a translation: out of memory, requests to stop, timings, reused buffers."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from onnxruntime.capi.onnxruntime_pybind11_state import Fail

from jobs.errors import Stopped
from jobs.tasks.shared_options import CachePolicy, Timing
from tests.models.engine.tasks.texts import GREEDY, TEXTS, translate
from worker.engine.seq2seq.exported import decoder as exported_decoder
from worker.engine.seq2seq.exported.decoder import ExportedSteps
from worker.engine.tasks.translation import Translator

# Memory


def out_of_memory_above(size: int, calls: list[int], error: Exception) -> Callable[..., ExportedSteps]:
    """Decoding steps that raise the error for batches of more than `size` ids (rows x source length)."""

    class TooSmall(ExportedSteps):
        def __init__(self, model: Any, cache: Any, batch: Any, **rest: Any) -> None:
            super().__init__(model, cache, batch, **rest)
            self._size = batch.input_ids.size

        def step(self, last_ids: Any) -> Any:
            if self._steps == 1:
                calls.append(self._size)
                if self._size > size:
                    raise error
            return super().step(last_ids)

    return TooSmall


@pytest.mark.parametrize(
    "error",
    [MemoryError(), Fail("bfc_arena.cc:360 BFCArena::AllocateRawInternal Failed to allocate memory for 614400000")],
)
def test_a_batch_that_does_not_fit_into_memory_is_halved_and_the_size_that_fits_is_remembered(
    translator: Translator, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    wanted = translate(translator, TEXTS)
    before = translator.decoder._cache
    calls: list[int] = []
    monkeypatch.setattr(exported_decoder, "ExportedSteps", out_of_memory_above(20, calls, error))

    assert translate(translator, TEXTS).outcomes == wanted.outcomes
    assert max(calls) > 20, "the large batch was tried"
    assert translator.decoder._cache is not before, "the buffers of the large batch were freed"
    calls.clear()
    assert translate(translator, TEXTS).outcomes == wanted.outcomes
    assert max(calls) <= 20, "a size that did not fit is not tried again"


def test_a_single_row_that_does_not_fit_into_memory_raises(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    monkeypatch.setattr(exported_decoder, "ExportedSteps", out_of_memory_above(0, calls, MemoryError("no more")))

    with pytest.raises(MemoryError, match="no more"):
        translate(translator, TEXTS)
    assert calls[-1] < calls[0] / 4


def test_another_error_is_not_taken_for_a_lack_of_memory(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    monkeypatch.setattr(exported_decoder, "ExportedSteps", out_of_memory_above(0, calls, Fail("Invalid node")))

    with pytest.raises(Fail):
        translate(translator, TEXTS)
    assert len(calls) == 1


# Time


def test_translation_stops_between_two_steps(translator: Translator) -> None:
    asked = iter([False, False, False, True])

    with pytest.raises(Stopped):
        translate(translator, TEXTS, should_stop=lambda: next(asked))
    assert next(asked, "exhausted") == "exhausted"


def test_a_stopped_lane_can_continue_with_other_work(translator: Translator) -> None:
    wanted = translate(translator, TEXTS).outcomes
    asked = iter([False] * 4 + [True])
    with pytest.raises(Stopped):
        translate(translator, TEXTS, should_stop=lambda: next(asked))

    assert translate(translator, TEXTS).outcomes == wanted


def test_every_phase_is_timed(translator: Translator) -> None:
    timings = translate(translator, TEXTS, dataclasses.replace(GREEDY, batch_size=3)).timings

    assert [timing.phase for timing in timings if timing.phase not in ("decode",)] == [
        "segment",
        "tokenize",
        *["encode", "prefill", "detokenize"] * 2,
    ]
    assert timings[0].rows == len(TEXTS)
    assert (timings[1].rows, timings[1].tokens) == (5, 28)
    assert [timing.rows for timing in timings if timing.phase == "detokenize"] == [3, 2]


@pytest.mark.parametrize("timing", [Timing.BATCHES, Timing.OFF])
def test_timings_can_be_summed_per_batch_or_switched_off(translator: Translator, timing: Timing) -> None:
    timings = translate(translator, TEXTS, dataclasses.replace(GREEDY, batch_size=3, timing=timing)).timings

    expected = ["segment", "tokenize", "encode", "prefill", "decode", "detokenize"]
    assert [timing.phase for timing in timings] == (expected if timing is Timing.BATCHES else [])


def test_the_buffers_of_a_lane_are_counted_and_reused(translator: Translator) -> None:
    translate(translator, TEXTS)
    allocations = translator.decoder.buffer_stats.allocations
    translate(translator, TEXTS)

    assert translator.decoder.buffer_stats.allocations == allocations > 0
    assert translator.decoder.buffer_stats.reuses > 0
    assert translator.decoder.buffer_stats.num_bytes > 0


def test_another_cache_policy_uses_another_decoder(translator: Translator) -> None:
    first, before = translate(translator, TEXTS).outcomes, translator.decoder

    translate(translator, TEXTS, dataclasses.replace(GREEDY, cache=CachePolicy("off")))

    assert translator.decoder is not before
    assert translate(translator, TEXTS).outcomes == first
