"""Decoding with a cache and without, on graphs that Optimum exported: equal results, and the rules of these graphs."""

import dataclasses
import itertools
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobs.errors import SpecError
from jobs.tasks.shared_options import CachePolicy, Timing
from tests.repetition import cover, times
from worker.engine.runtime.run_context import RunContext
from worker.engine.runtime.timing import Stopwatch
from worker.engine.seq2seq.batches import make_batches
from worker.engine.seq2seq.exported import decoder as exported_steps
from worker.engine.seq2seq.exported import model as exported_model
from worker.engine.seq2seq.exported.decoder import ExportedSteps
from worker.engine.seq2seq.exported.model import ExportedSeq2Seq

OpenTiny = Callable[..., Any]
LAYOUTS_WITH_A_CACHE = ("merged", "two")


def ids(found: Any) -> list[list[tuple[int, ...]]]:
    return [[hypothesis.ids for hypothesis in hypotheses] for hypotheses in found]


@dataclasses.dataclass
class Call:
    """One run of a decoder: the shapes of its bound inputs and the names of its bound outputs."""

    shapes: dict[str, tuple[int, ...]] = dataclasses.field(default_factory=dict)
    uses_cache: bool = False
    outputs: list[str] = dataclasses.field(default_factory=list)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Call]:
    """The list to which every later run of a decoder is appended."""
    made: list[Call] = []
    bound: dict[int, Call] = {}

    class Spy(onnxruntime.IOBinding):  # type: ignore[misc]
        def bind_input(self, name: str, device: str, number: int, dtype: Any, shape: Any, pointer: int) -> None:
            call = bound.setdefault(id(self), Call())
            call.shapes[name] = tuple(shape)
            if name == "use_cache_branch":
                call.uses_cache = bool(np.ctypeslib.as_array((np.ctypeslib.ctypes.c_bool * 1).from_address(pointer))[0])
            super().bind_input(name, device, number, dtype, shape, pointer)

        def bind_output(self, name: str, *rest: Any) -> None:
            bound.setdefault(id(self), Call()).outputs.append(name)
            super().bind_output(name, *rest)

    run = onnxruntime.InferenceSession.run_with_iobinding

    def spied(self: Any, binding: Any, *rest: Any) -> None:
        made.append(dataclasses.replace(bound[id(binding)], shapes=dict(bound[id(binding)].shapes)))
        bound[id(binding)].outputs = []
        run(self, binding, *rest)

    monkeypatch.setattr(onnxruntime.InferenceSession, "io_binding", lambda self: Spy(self))
    monkeypatch.setattr(onnxruntime.InferenceSession, "run_with_iobinding", spied)
    return made


# Cached equals uncached


@pytest.mark.parametrize(
    ("use", "num_beams"),
    cover(
        itertools.product(
            LAYOUTS_WITH_A_CACHE, ["on", "auto", "hybrid:0", "hybrid:1", "hybrid:2", "hybrid:7", "hybrid:9999"]
        ),
        [1, 4],
    ),
)
def test_cached_decoding_equals_decoding_without_a_cache(
    open_tiny: OpenTiny, use: tuple[str, str], num_beams: int
) -> None:
    layout, policy = use
    tiny = open_tiny("tiny-swish-tied", layout)
    rules = tiny.rules(num_beams=num_beams)

    assert ids(tiny.run(rules, policy=policy)) == ids(tiny.run(rules, policy="off"))


@pytest.mark.parametrize("layout", LAYOUTS_WITH_A_CACHE)
def test_the_logits_of_cached_steps_equal_those_of_the_whole_prefix(open_tiny: OpenTiny, layout: str) -> None:
    tiny = open_tiny("tiny-relu-tied", layout)
    (batch,) = make_batches(tiny.sources, max_rows=32, pad_id=tiny.model.pad_id)
    run = RunContext(Stopwatch(Timing.OFF))
    on, off = (
        ExportedSteps(tiny.model.graphs, tiny.model.graphs.new_cache(), batch, policy=CachePolicy(mode), run=run)
        for mode in ("on", "off")
    )
    rng = np.random.default_rng(0)
    num_rows = len(batch.order)
    for _ in range(40):
        last_ids = rng.integers(0, 63, num_rows)
        assert on.step(last_ids) == pytest.approx(off.step(last_ids), abs=1e-4)
        rows = rng.integers(0, num_rows, rng.integers(1, num_rows + 4))
        num_rows = len(rows)
        on.select(rows)
        off.select(rows)


# Rows are independent of each other


@pytest.mark.parametrize(
    ("layout", "policy", "num_beams"),
    [("merged", "on", 1), ("merged", "off", 4), ("two", "on", 4), ("none", "auto", 1)],
)
def test_a_batch_gives_each_row_what_it_gets_alone(
    open_tiny: OpenTiny, layout: str, policy: str, num_beams: int
) -> None:
    tiny = open_tiny("tiny-swish-separate", layout)
    rules = tiny.rules(num_beams=num_beams)

    assert ids(tiny.run(rules, policy=policy)) == ids(tiny.run(rules, policy=policy, rows=1))


@settings(max_examples=times(5), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), num_beams=st.sampled_from([1, 3]), rows=st.integers(1, 6))
def test_the_other_rows_and_their_order_do_not_matter(
    tiny: Any, data: st.DataObject, num_beams: int, rows: int
) -> None:
    rules = tiny.rules(num_beams=num_beams, max_length=16)
    alone = ids(tiny.run(rules, rows=1))
    places = data.draw(st.lists(st.integers(0, len(tiny.sources) - 1), min_size=1, max_size=9))

    together = ids(tiny.run(rules, [tiny.sources[index] for index in places], rows=rows))

    assert together == [alone[index] for index in places]


# The rules of exported graphs, which are easily got wrong


def test_cross_attention_keys_are_taken_from_the_first_step(tiny: Any, calls: list[Call]) -> None:
    """Otherwise "Reshape ... dimension with value zero exceeds the dimension size" at the third step."""
    source = tiny.sources[5]
    (hypotheses,) = tiny.run(tiny.rules(num_beams=1), [source])

    assert len(calls) == len(hypotheses[0].ids) > 3
    assert {call.shapes["past_key_values.1.encoder.key"] for call in calls[1:]} == {(1, 2, len(source), 8)}
    assert [call.uses_cache for call in calls] == [False] + [True] * (len(calls) - 1)


@pytest.mark.parametrize("policy", ["on", "hybrid:3"])
@pytest.mark.parametrize("num_beams", [1, 4])
def test_the_cross_attention_outputs_of_the_cached_branch_are_ignored(
    tiny: Any, calls: list[Call], policy: str, num_beams: int
) -> None:
    """Otherwise wrong tokens after step 1: in the cached branch these outputs are empty."""
    tiny.run(tiny.rules(num_beams=num_beams), policy=policy)

    takes_source = [any(".encoder." in name for name in call.outputs) for call in calls]
    assert any(call.uses_cache for call in calls)
    assert takes_source.count(True) == 1
    assert takes_source.index(True) == (2 if policy == "hybrid:3" else 0)


def test_the_first_step_is_fed_a_past_of_length_zero(tiny: Any, calls: list[Call]) -> None:
    """Otherwise "Missing Input: past_key_values.0.decoder.key"."""
    tiny.run(tiny.rules(num_beams=1), tiny.sources[:2])

    assert calls[0].shapes["past_key_values.0.decoder.key"] == (2, 2, 0, 8)
    assert calls[0].shapes["past_key_values.0.encoder.value"] == (2, 2, 0, 8)


def test_a_graph_that_refuses_an_empty_past_is_fed_one_of_length_one(
    tiny: Any, calls: list[Call], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = onnxruntime.InferenceSession.run

    def refusing(self: Any, outputs: Any, feed: dict[str, Any], *rest: Any) -> Any:
        if any(name.startswith("past") and array.shape[2] == 0 for name, array in feed.items()):
            raise RuntimeError("Invalid dimension")
        return run(self, outputs, feed, *rest)

    monkeypatch.setattr(onnxruntime.InferenceSession, "run", refusing)
    picky = ExportedSeq2Seq.open(tiny.folder)
    assert picky.graphs.dummy_length == 1

    found = dataclasses.replace(tiny, model=picky).run(tiny.rules(num_beams=1))

    assert calls[0].shapes["past_key_values.0.decoder.key"] == (len(tiny.sources), 2, 1, 8)
    assert ids(found) == ids(tiny.run(tiny.rules(num_beams=1)))


@pytest.mark.parametrize("layout", LAYOUTS_WITH_A_CACHE)
def test_the_present_of_the_first_step_is_the_past_of_the_second(
    open_tiny: OpenTiny, calls: list[Call], layout: str
) -> None:
    """Otherwise the whole prefix runs twice ("workaround mode")."""
    tiny = open_tiny("tiny-swish-tied", layout)
    tiny.run(tiny.rules(num_beams=1), tiny.sources[3:4])

    assert [call.shapes["input_ids"] for call in calls] == [(1, 1)] * len(calls)
    assert [call.shapes["past_key_values.0.decoder.key"][2] for call in calls[1:]] == list(range(1, len(calls)))


def test_hybrid_runs_the_prefix_n_times_and_continues_from_the_last_present(tiny: Any, calls: list[Call]) -> None:
    tiny.run(tiny.rules(num_beams=1), tiny.sources[5:6], policy="hybrid:3")

    assert [call.shapes["input_ids"][1] for call in calls[:5]] == [1, 2, 3, 1, 1]
    assert [call.shapes["past_key_values.0.decoder.key"][2] for call in calls[3:5]] == [3, 4]


@pytest.mark.parametrize("policy", ["on", "off", "hybrid:3"])
@pytest.mark.parametrize("num_beams", [1, 3])
def test_the_mask_of_the_target_is_as_long_as_past_and_present(
    golden_folder: Path, policy: str, num_beams: int
) -> None:
    """Otherwise "Attention mask should be of size (1,1,1,1) but is (1,1,1,11)". The ids that this model generates are
    the lengths of its mask."""
    counting = ExportedSeq2Seq.open(golden_folder / "counting")
    cache = counting.graphs.new_cache()
    (batch,) = make_batches([[3, 11], [4, 5, 11]], max_rows=2, pad_id=0)
    decoding = ExportedSteps(counting.graphs, cache, batch, policy=CachePolicy.parse(policy), run=RunContext())
    rules = dataclasses.replace(counting.generation, num_beams=num_beams)

    assert counting.graphs.layout.cache is not None
    assert counting.graphs.layout.cache.dtype == np.float16, "the model is in half precision"
    for hypotheses in seq2seq_search(decoding, rules):
        assert hypotheses[0].ids == tuple(range(1, 12))


def seq2seq_search(decoding: ExportedSteps, rules: Any) -> Any:
    from worker.engine.search.search import search

    return search(decoding, 2, rules)


@pytest.mark.parametrize("layout", [*LAYOUTS_WITH_A_CACHE, "none"])
@pytest.mark.parametrize("num_beams", [1, 4])
def test_a_buffer_full_of_garbage_changes_nothing(
    open_tiny: OpenTiny, monkeypatch: pytest.MonkeyPatch, layout: str, num_beams: int
) -> None:
    """Otherwise NaN, or the end of an older row, gets into the result."""
    tiny = open_tiny("tiny-swish-tied", layout)
    rules = tiny.rules(num_beams=num_beams)
    clean = tiny.run(rules)

    def spoil(array: Any) -> Any:
        array[...] = -1 if array.dtype == np.int64 else np.nan
        return array

    empty = np.empty
    monkeypatch.setattr(np, "empty", lambda *arguments: spoil(empty(*arguments)))
    cache = tiny.model.graphs.new_cache()
    for policy in ("auto", "off"):
        assert ids(tiny.run(rules, cache=cache, policy=policy)) == ids(clean)
        for buffer in (cache._self, cache._cross, *cache._steps.values()):
            spoil(buffer)
        assert ids(tiny.run(rules, cache=cache, policy=policy)) == ids(clean)


# Buffers, timings, threads


@pytest.mark.parametrize("layout", LAYOUTS_WITH_A_CACHE)
@pytest.mark.parametrize("num_beams", [1, 4])
def test_later_batches_reuse_the_buffers_of_the_first(open_tiny: OpenTiny, layout: str, num_beams: int) -> None:
    tiny = open_tiny("tiny-swish-tied", layout)
    cache, rules = tiny.model.graphs.new_cache(), tiny.rules(num_beams=num_beams)
    tiny.run(rules, cache=cache)
    before = cache.buffer_stats.allocations, cache.buffer_stats.num_bytes
    tiny.run(rules, cache=cache)
    tiny.run(rules, cache=cache, rows=3)

    assert (cache.buffer_stats.allocations, cache.buffer_stats.num_bytes) == before
    assert cache.buffer_stats.reuses >= 4


@pytest.mark.parametrize("policy", ["off", "hybrid:4"])
def test_calls_without_a_cache_are_split_to_limit_their_logits(
    tiny: Any, calls: list[Call], monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    wanted = ids(tiny.run(tiny.rules(), policy=policy))
    calls.clear()
    monkeypatch.setattr(exported_steps, "MAX_LOGITS", 72 * 20)

    assert ids(tiny.run(tiny.rules(), policy=policy)) == wanted
    uncached = [call.shapes["input_ids"] for call in calls if not call.uses_cache]
    assert all(rows * length <= 20 or rows == 1 for rows, length in uncached if policy == "off" or length < 4)
    assert max(rows for rows, _ in uncached) > 1


def test_inputs_that_do_not_change_are_bound_once(tiny: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    binds: list[str] = []
    bind = onnxruntime.IOBinding.bind_input
    monkeypatch.setattr(
        onnxruntime.IOBinding, "bind_input", lambda self, name, *rest: (binds.append(name), bind(self, name, *rest))[1]
    )
    (hypotheses,) = tiny.run(tiny.rules(num_beams=1, min_length=30), tiny.sources[4:5])

    assert len(hypotheses[0].ids) >= 29
    for name in ("encoder_attention_mask", "past_key_values.0.encoder.key", "use_cache_branch"):
        assert binds.count(name) == 2, f"{name}: once for the first step, once for all others"


@pytest.mark.parametrize(
    ("policy", "prefixes"), [("on", [1, 1, 1, 1, 1]), ("off", [1, 2, 3, 4, 5]), ("hybrid:2", [1, 2, 1, 1, 1])]
)
def test_every_model_call_is_timed(tiny: Any, policy: str, prefixes: list[int]) -> None:
    run = RunContext()
    tiny.run(tiny.rules(num_beams=1, min_length=6, max_length=6), tiny.sources[:3], policy=policy, run=run)
    encode, *steps = run.timings

    longest = max(map(len, tiny.sources[:3]))
    assert (encode.phase, encode.rows, encode.tokens) == ("encode", 3, 3 * longest)
    assert [step.phase for step in steps] == ["prefill"] + ["decode"] * 4
    assert [step.step for step in steps] == list(range(5))
    assert [step.tokens for step in steps] == [3 * prefix for prefix in prefixes]
    assert [step.past_length + prefix for step, prefix in zip(steps, prefixes, strict=True)] == [1, 2, 3, 4, 5]


def test_lanes_that_share_a_model_do_not_affect_each_other(tiny: Any) -> None:
    rules = [tiny.rules(num_beams=num_beams) for num_beams in (1, 4)]
    wanted = [ids(tiny.run(rule_set)) for rule_set in rules]
    found: list[Any] = [None] * 4

    def lane(number: int) -> None:
        cache = tiny.model.graphs.new_cache()
        for _ in range(3):
            found[number] = ids(tiny.run(rules[number % 2], cache=cache, rows=4))

    threads = [threading.Thread(target=lane, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found == wanted * 2


# Policies


@pytest.mark.parametrize("policy", ["on", "hybrid:3"])
@pytest.mark.parametrize("layout", ["none", "never"])
def test_the_cache_cannot_be_on_for_graphs_without_one(open_tiny: OpenTiny, layout: str, policy: str) -> None:
    tiny = open_tiny("tiny-swish-tied", layout)

    with pytest.raises(SpecError, match=f"{policy}.*--cache auto"):
        tiny.run(tiny.rules(), policy=policy)


def test_the_longest_hypothesis_fills_all_positions(tiny: Any) -> None:
    rules = dataclasses.replace(tiny.rules(num_beams=1), max_new_tokens=64, min_new_tokens=64)

    (hypotheses,) = tiny.run(rules, [[5, 6, 0]])
    assert len(hypotheses[0].ids) == tiny.model.max_positions == 64


def test_a_merged_graph_that_cannot_run_fails_when_it_is_opened(tiny: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from jobs.errors import ModelError

    def failing(*_: Any) -> Any:
        raise RuntimeError("no kernel")

    monkeypatch.setattr(onnxruntime.InferenceSession, "run", failing)
    with pytest.raises(ModelError, match=r"decoder_model_merged\.onnx.*no kernel"):
        exported_model.ExportedSeq2Seq.open(tiny.folder)
