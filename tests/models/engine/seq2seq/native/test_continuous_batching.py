"""The result of a segment does not depend on the other segments in the slots, on its slot, or on old slot content."""

import functools
import math
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnxruntime.capi.onnxruntime_pybind11_state import Fail

from jobs.errors import Stopped
from tests.repetition import times
from tests.tiny_models import OpenKV, OpenTiny, TinyNative, build_kv, decode
from worker.engine.runtime.run_context import RunContext
from worker.engine.search.hypothesis import Hypothesis
from worker.engine.seq2seq.native import decoder_graphs, kv_slots
from worker.engine.seq2seq.native.kv_memory import KVMemory
from worker.engine.seq2seq.native.kv_slots import KVSlots
from worker.graphs.precision import Precision

FP32, INT8 = Precision.FP32, Precision.INT8

# A tied and an untied head; for an int8 head without a bias the search applies the scales.
MODELS = ("tiny-swish-tied", "tiny-relu-separate", "no bias")


@pytest.fixture(scope="module")
def kv(open_kv: OpenKV, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Precision], TinyNative]:
    def zero(weights: dict[str, Any]) -> None:
        weights["final_logits_bias"] = np.zeros_like(weights["final_logits_bias"])

    without = {
        precision: build_kv(tmp_path_factory.mktemp("no-bias"), "tiny-swish-tied", precision, change=zero)
        for precision in (FP32, INT8)
    }
    return lambda name, precision: without[precision] if name == "no bias" else open_kv(name, precision)


def assert_same(found: Sequence[Hypothesis], alone: Sequence[Hypothesis], precision: Precision) -> None:
    """Assert bit-equal results in int8, and in fp32 the same ids with scores within 1e-5: a product of several rows may
    sum in another order than a product of one row, although the bits were equal on all machines tried."""
    if precision is INT8:
        assert found == alone
        return
    assert [hypothesis.ids for hypothesis in found] == [hypothesis.ids for hypothesis in alone]
    assert [hypothesis.truncated for hypothesis in found] == [hypothesis.truncated for hypothesis in alone]
    for hypothesis, expected in zip(found, alone, strict=True):
        assert hypothesis.log_prob == pytest.approx(expected.log_prob, rel=1e-5, abs=1e-5)
        assert hypothesis.score == pytest.approx(expected.score, rel=1e-5, abs=1e-5)


@pytest.mark.long
@pytest.mark.parametrize("precision", [FP32, INT8])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("num_beams", [1, 4])
def test_results_do_not_depend_on_other_segments_their_order_or_the_batch_size(
    kv: Callable[[str, Precision], TinyNative], name: str, precision: Precision, num_beams: int
) -> None:
    built = kv(name, precision)
    pool, rules = built.draw_sources(24), built.rules(num_beams=num_beams)
    alone = functools.cache(lambda index: decode(built.model, [pool[index]], rules, rows=1)[0])
    decoder = built.model.new_decoder()

    @settings(max_examples=times(4))
    @given(st.lists(st.integers(0, len(pool) - 1), min_size=1, max_size=20), st.sampled_from([1, 2, 3, 7, 64]))
    def check(chosen: list[int], rows: int) -> None:
        found = decode(built.model, [pool[index] for index in chosen], rules, rows=rows, decoder=decoder)
        for index, hypotheses in zip(chosen, found, strict=True):
            assert_same(hypotheses, alone(index), precision)

    check()


def test_lanes_of_one_model_do_not_disturb_each_other(open_kv: OpenKV) -> None:
    built = open_kv("tiny-swish-tied", INT8)
    sources = built.draw_sources(40)
    wanted = [decode(built.model, sources, built.rules(num_beams=num_beams), rows=5) for num_beams in (1, 3)]
    found: list[Any] = [None, None]

    def lane(index: int, num_beams: int) -> None:
        found[index] = decode(built.model, sources, built.rules(num_beams=num_beams), rows=5)

    lanes = [threading.Thread(target=lane, args=(index, num_beams)) for index, num_beams in enumerate((1, 3))]
    for hypothesis in lanes:
        hypothesis.start()
    for hypothesis in lanes:
        hypothesis.join()

    assert found == wanted


@pytest.mark.parametrize("num_beams", [2, 5, 6])
def test_graphs_for_any_number_of_beams_are_built_on_demand_and_give_the_same_results(
    open_kv: OpenKV, open_tiny: OpenTiny, num_beams: int
) -> None:
    """The exported layout is the reference; the golden files check it."""
    kv, exported = open_kv("tiny-relu-tied"), open_tiny("tiny-relu-tied", "merged")
    wanted = exported.run(exported.rules(num_beams=num_beams))

    found = kv.run(kv.rules(num_beams=num_beams), rows=3)

    for some, others in zip(found, wanted, strict=True):
        assert [hypothesis.ids for hypothesis in some] == [hypothesis.ids for hypothesis in others]
        for hypothesis, expected in zip(some, others, strict=True):
            assert hypothesis.score == pytest.approx(expected.score, abs=1e-4)


# Memory


class Garbage(KVMemory):
    """Memory with NaN (in int8, large numbers) wherever nothing was written."""

    @property
    def garbage(self) -> float:
        return 77 if self.array.dtype == np.int8 else np.nan

    def allocate(self, *sizes: int) -> None:
        super().allocate(*sizes)
        self.buffer.lay_out((self.buffer.size,)).fill(self.garbage)

    def _move(self, kept: int, cached: int, rows: int, capacity: int) -> None:
        super()._move(kept, cached, rows, capacity)
        self.array[:, kept:] = self.array[:, :, :, cached:] = self.garbage


@pytest.mark.parametrize("precision", [FP32, INT8])
@pytest.mark.parametrize("num_beams", [1, 4])
def test_the_old_content_of_a_slot_does_not_matter(
    open_kv: OpenKV, monkeypatch: pytest.MonkeyPatch, precision: Precision, num_beams: int
) -> None:
    built = open_kv("tiny-swish-tied", precision)
    sources, rules = built.draw_sources(24), built.rules(num_beams=num_beams)
    wanted = [decode(built.model, sources, rules, rows=rows) for rows in (3, 16)]
    monkeypatch.setattr(kv_slots, "KVMemory", Garbage)
    decoder = built.model.new_decoder()

    assert [decode(built.model, sources, rules, rows=rows, decoder=decoder) for rows in (3, 16)] == wanted


class Narrow(KVSlots):
    """Slots that reserve memory for no more positions than they begin with."""

    def allocate(self, sentences: int, beams: int, positions: int, source_length: int) -> None:
        super().allocate(sentences, beams, 1, source_length)


@pytest.mark.parametrize("num_beams", [1, 3])
def test_slots_that_grow_while_decoding_keep_their_content(
    open_kv: OpenKV, monkeypatch: pytest.MonkeyPatch, num_beams: int
) -> None:
    built = open_kv("tiny-relu-separate")  # some of its sentences run to the limit of 39 tokens
    sources, rules = built.draw_sources(30), built.rules(num_beams=num_beams)
    wanted = decode(built.model, sources, rules, rows=7)
    assert max(len(hypothesis.ids) for hypothesis, *_ in wanted) > 32
    monkeypatch.setattr(decoder_graphs, "KVSlots", Narrow)
    decoder = built.model.new_decoder()

    assert decode(built.model, sources, rules, rows=7, decoder=decoder) == wanted
    assert decoder._slots.buffer_stats.allocations >= 4, "cross, and past from 16 positions to 32, and further"


def test_the_buffers_of_a_lane_are_reused(open_kv: OpenKV) -> None:
    built = open_kv()
    decoder = built.model.new_decoder()
    sources, rules = built.draw_sources(40), built.rules(num_beams=1, max_length=17)  # no slot has to grow
    decode(built.model, sources, rules, decoder=decoder)
    allocations, num_bytes = decoder.buffer_stats.allocations, decoder.buffer_stats.num_bytes

    decode(built.model, sources, rules, decoder=decoder)

    assert decoder.buffer_stats.allocations == allocations > 0
    assert decoder.buffer_stats.reuses > 0
    assert decoder.buffer_stats.num_bytes == num_bytes > 0


FULL = Fail("bfc_arena.cc:360 BFCArena::AllocateRawInternal Failed to allocate memory for 614400000")


def run_out_of_memory(
    monkeypatch: pytest.MonkeyPatch, sentences: int, where: str, error: Exception, tried: list[int]
) -> None:
    """Slots for more than `sentences` raise the error: in `allocate`, or in the third step. `tried`: their sizes."""

    class TooSmall(KVSlots):
        def allocate(self, count: int, *rest: int) -> None:
            tried.append(count)
            self.steps = 0
            super().allocate(count, *rest)
            self.fits = count <= sentences
            if not self.fits and where == "allocate":
                raise error

        def bind(self, binding: Any) -> None:
            self.steps += 1
            if not self.fits and self.steps == 3:
                raise error
            super().bind(binding)

    monkeypatch.setattr(decoder_graphs, "KVSlots", TooSmall)


@pytest.mark.parametrize(
    ("where", "error", "num_beams"),
    [
        ("allocate", MemoryError("no more"), 1),
        ("allocate", FULL, 3),
        ("step", MemoryError("no more"), 3),
        ("step", FULL, 1),
    ],
)
def test_slots_that_do_not_fit_into_memory_are_halved_and_the_size_that_fits_is_remembered(
    open_kv: OpenKV, monkeypatch: pytest.MonkeyPatch, where: str, error: Exception, num_beams: int
) -> None:
    built = open_kv("tiny-swish-tied", INT8)
    sources, rules = built.draw_sources(40), built.rules(num_beams=num_beams)
    wanted = decode(built.model, sources, rules, rows=20)
    tried: list[int] = []
    run_out_of_memory(monkeypatch, 6, where, error, tried)
    decoder = built.model.new_decoder()

    assert decode(built.model, sources, rules, rows=20, decoder=decoder) == wanted
    assert tried == [20, 10, 5]
    tried.clear()
    assert decode(built.model, sources, rules, rows=20, decoder=decoder) == wanted
    assert tried == [5], "a size that did not fit is not tried again"


@pytest.mark.parametrize("where", ["allocate", "step"])
def test_a_single_sentence_that_does_not_fit_into_memory_raises(
    open_kv: OpenKV, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    built, tried = open_kv(), list[int]()
    run_out_of_memory(monkeypatch, 0, where, MemoryError("no more"), tried)

    with pytest.raises(MemoryError, match="no more"):
        decode(built.model, built.draw_sources(9), built.rules(), rows=8)
    assert tried == [8, 4, 2, 1]


def test_another_error_is_not_taken_for_a_lack_of_memory(open_kv: OpenKV, monkeypatch: pytest.MonkeyPatch) -> None:
    built, tried = open_kv(), list[int]()
    run_out_of_memory(monkeypatch, 0, "step", Fail("Invalid node"), tried)

    with pytest.raises(Fail, match="Invalid node"):
        decode(built.model, built.draw_sources(9), built.rules(), rows=8)
    assert tried == [8]


# Time


@pytest.mark.parametrize("num_beams", [1, 3])
def test_decoding_stops_between_two_steps_and_the_lane_can_continue_with_other_work(
    open_kv: OpenKV, num_beams: int
) -> None:
    built = open_kv()
    sources, rules = built.draw_sources(30), built.rules(num_beams=num_beams)
    wanted = decode(built.model, sources, rules, rows=4)
    decoder = built.model.new_decoder()
    asked = iter([*[False] * 5, True])
    run = RunContext(should_stop=lambda: next(asked))

    with pytest.raises(Stopped):
        list(decoder.decode(sources, rules, run, batch_size=4))

    assert next(asked, "exhausted") == "exhausted"
    assert sum(timing.phase == "decode" for timing in run.timings) == 5
    assert decode(built.model, sources, rules, rows=4, decoder=decoder) == wanted


def test_a_slot_is_refilled_as_soon_as_its_sentence_ends(open_kv: OpenKV) -> None:
    """With few slots and many sentences, there are hardly more steps than if the tokens were divided evenly."""
    built, run = open_kv(), RunContext()
    sources, rules = built.draw_sources(60), built.rules(num_beams=1)
    lengths = [len(hypothesis.ids) for hypothesis, *_ in decode(built.model, sources, rules)]

    list(built.model.new_decoder().decode(sources, rules, run, batch_size=4))

    steps = [timing for timing in run.timings if timing.phase == "decode"]
    assert sum(timing.rows for timing in steps) == sum(lengths), "no row runs without a sentence"
    assert len(steps) <= sum(lengths) / 4 + max(lengths)
    encoded = [timing for timing in run.timings if timing.phase == "encode"]
    assert sum(timing.rows for timing in encoded) == len(sources)
    assert sum(timing.tokens for timing in encoded) == sum(map(len, sources)), "nothing is padded"


# Non-finite numbers


@pytest.mark.parametrize(
    ("value", "place", "num_beams", "precision"),
    [
        (np.nan, 0, 1, INT8), (np.nan, 13, 4, INT8), (np.nan, 31, 1, INT8), (np.inf, 13, 4, INT8),
        (np.nan, 13, 1, FP32), (np.inf, 13, 4, FP32),
    ],
)  # fmt: skip
def test_a_non_finite_weight_fails_only_the_segments_that_use_it(
    open_kv: OpenKV, tmp_path: Path, precision: Precision, value: float, place: int, num_beams: int
) -> None:
    """One number of one row of the encoder's embeddings: int8, which scales by the largest number, must not hide it."""
    bad = 7

    def spoil(weights: dict[str, Any]) -> None:
        weights["model.encoder.embed_tokens.weight"][bad, place] = value

    whole = open_kv("tiny-swish-separate", precision)
    broken = build_kv(tmp_path, "tiny-swish-separate", precision, change=spoil)
    sources, rules = whole.draw_sources(30), whole.rules(num_beams=num_beams)
    uses = [bad in source for source in sources]
    assert 5 < sum(uses) < 25
    wanted = decode(whole.model, sources, rules, rows=7)

    found = decode(broken.model, sources, rules, rows=7)

    assert [math.isnan(best.log_prob) for best, *_ in found] == uses
    assert [math.isnan(best.log_prob) for best, *_ in decode(broken.model, sources, rules, cache="off")] == uses
    for some, others, fails in zip(found, wanted, uses, strict=True):
        assert fails or some == others


@pytest.mark.parametrize("precision", [FP32, INT8])
def test_a_target_token_with_a_non_finite_embedding_fails_only_the_segments_that_generate_it(
    open_kv: OpenKV, tmp_path: Path, precision: Precision
) -> None:
    whole = open_kv("tiny-swish-separate", precision)
    sources, rules = whole.draw_sources(60), whole.rules(num_beams=1)
    wanted = decode(whole.model, sources, rules, rows=7)
    bad = wanted[0][0].ids[0]

    def spoil(weights: dict[str, Any]) -> None:
        weights["model.decoder.embed_tokens.weight"][bad, 13] = np.nan

    found = decode(build_kv(tmp_path, "tiny-swish-separate", precision, change=spoil).model, sources, rules, rows=7)

    fed = [bad in best.ids[:-1] for best, *_ in wanted]
    assert 0 < sum(fed) < len(fed)
    assert [math.isnan(best.log_prob) for best, *_ in found] == fed
    for some, others, fails in zip(found, wanted, fed, strict=True):
        assert fails or some == others
