"""The log-probability of a token depends only on the tokens before it: not on other sequences, nor on the calls."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.errors import ModelError, Stopped
from tests.models.engine.causal.native.tiny_causal import MAX_POSITIONS, MODELS, VOCAB_SIZE, TinyCausal, write_tiny
from tests.repetition import cover, times
from worker.engine.causal.native.calls import CallLimits
from worker.engine.causal.native.model import NativeCausal
from worker.engine.causal.native.reader import PackedReader
from worker.engine.causal.protocol import Group, LogProbs
from worker.engine.runtime import native_session
from worker.engine.runtime.native_session import Int8, exact_int8
from worker.engine.runtime.run_context import RunContext
from worker.graphs import embeddings, matrix_products
from worker.graphs.precision import Precision
from worker.graphs.rounding import round_to_nearest
from worker.models.departures.window_probe import windows_are_exact

TIGHT = CallLimits(tokens=13, padded=20, head_rows=5, scores=700)  # sequences are cut often and rarely packed
LIMITS = {"roomy": CallLimits(), "tight": TIGHT, "few scores": CallLimits(scores=4 * 70 * 100, head_rows=7)}


def read(reader: Any, groups: list[Group]) -> list[list[LogProbs]]:
    found = dict(reader.read(groups, RunContext()))
    assert sorted(found) == list(range(len(groups))), "each group is yielded once"
    return [found[index] for index in range(len(groups))]


def difference(found: list[list[LogProbs]], wanted: list[list[Any]]) -> float:
    """The greatest absolute difference over all tokens."""
    assert [[len(array) for array in group] for group in found] == [[len(array) for array in group] for group in wanted]
    parts = zip((x for group in found for x in group), (x for group in wanted for x in group), strict=True)
    return max(float(np.abs(actual - expected).max(initial=0)) for actual, expected in parts)


def draw_ids(rng: np.random.Generator, length: int) -> list[int]:
    return [int(i) for i in rng.integers(0, VOCAB_SIZE, length)]


def mixture(seed: int = 3) -> list[Group]:
    """Groups with sequences of all lengths, without and with prefixes of all lengths."""
    rng = np.random.default_rng(seed)
    alone = [Group([], [draw_ids(rng, length)]) for length in (1, 2, 96, 14, 13, 12, 40, 3, 1)]
    behind = [
        Group(draw_ids(rng, prefix), [draw_ids(rng, length) for length in lengths])
        for prefix, lengths in (
            (40, (1, 2, 3, 20, 56, 5, 5)),
            (70, (26, 26, 1, 1)),
            (3, (1, 4)),
            (95, (1, 1)),
            (20, (9,)),
        )
    ]
    given = [
        Group(draw_ids(rng, prefix), [draw_ids(rng, length) for length in (20, 2, 5, 1, 13)], [15, 1, 0, 0, 1])
        for prefix in (0, 3, 60)
    ]
    return [*alone, *behind, *given, Group([], [draw_ids(rng, 5), draw_ids(rng, 1)])]


@pytest.mark.parametrize(
    ("name", "limits"), [*cover(MODELS, LIMITS), *itertools.product(["mistral, window"], ["tight", "few scores"])]
)
def test_every_token_has_the_log_probability_of_the_numpy_reference(
    make: Callable[..., TinyCausal], name: str, limits: str
) -> None:
    made, groups = make(name), mixture()
    wanted = [made.expected(group) for group in groups]

    reader = PackedReader(made.model.graphs, LIMITS[limits])
    for _ in range(2):  # the second time, the buffers hold what the first left
        assert difference(read(reader, groups), wanted) < 1e-4
    if limits == "roomy":
        assert difference(read(made.model.new_reader(is_packed=False), groups), wanted) < 1e-4


@settings(max_examples=times(10))
@given(st.data())
def test_results_do_not_depend_on_other_groups_or_on_the_limits(
    make: Callable[..., TinyCausal], data: st.DataObject
) -> None:
    """Any groups, under any limits, have the results that each group has alone."""
    made = make(data.draw(st.sampled_from(list(MODELS))))
    ids = st.integers(0, VOCAB_SIZE - 1)
    groups = []
    for _ in range(data.draw(st.integers(1, 5))):
        prefix = data.draw(st.lists(ids, max_size=50))
        suffix = st.lists(ids, min_size=1, max_size=MAX_POSITIONS - len(prefix))
        suffixes = data.draw(st.lists(suffix, min_size=1, max_size=5))
        groups.append(Group(prefix, suffixes, [data.draw(st.integers(0, len(suffix) - 1)) for suffix in suffixes]))
    tokens = data.draw(st.integers(1, 80))
    limits = CallLimits(tokens, data.draw(st.integers(tokens, 200)), data.draw(st.integers(1, 9)), 4 * 10_000)

    alone = [read(made.model.new_reader(is_packed=False), [group])[0] for group in groups]
    assert difference(read(PackedReader(made.model.graphs, limits), groups), alone) < 1e-4


@pytest.mark.parametrize("limits", LIMITS)
def test_garbage_in_the_buffers_changes_nothing(make: Callable[..., TinyCausal], limits: str) -> None:
    made, groups = make("qwen2"), mixture()
    reader = PackedReader(made.model.graphs, LIMITS[limits])
    first = read(reader, groups)

    for stage in reader._body._stages:
        stage._cache._laid_out.fill(np.nan)
        stage._dropped._memory.fill(np.nan)
    again = read(reader, groups)

    assert reader.buffer_stats.allocations
    assert reader.buffer_stats.reuses
    assert difference(again, first) == 0


def test_memory_is_allocated_once_and_does_not_grow_with_the_input(make: Callable[..., TinyCausal]) -> None:
    made, groups = make("llama"), mixture()
    reader = PackedReader(made.model.graphs, TIGHT)
    read(reader, groups)
    before = reader.buffer_stats
    assert before.allocations >= 1
    assert before.num_bytes > 0

    read(reader, groups * 3)

    after = reader.buffer_stats
    assert (after.allocations, after.num_bytes) == (before.allocations, before.num_bytes)
    assert after.reuses > 3 * before.reuses


@pytest.mark.parametrize("name", ["llama", "mistral, window"])
def test_no_call_is_larger_than_its_limits(make: Callable[..., TinyCausal], name: str) -> None:
    made, run = make(name), RunContext()
    list(PackedReader(made.model.graphs, TIGHT).read(mixture(), run))

    body = [timing for timing in run.timings if timing.phase == "prefill"]
    head = [timing for timing in run.timings if timing.phase == "head"]
    assert max(timing.tokens for timing in body) == TIGHT.tokens
    assert max(timing.tokens for timing in head) == TIGHT.head_rows
    assert max(timing.past_length for timing in body) > 4 * TIGHT.tokens
    scored = sum(len(log_probs) for group in mixture() for log_probs in made.expected(group))
    assert sum(timing.tokens for timing in head) == scored, "the head runs only for rows whose next token is scored"


def test_a_prefix_is_read_once(make: Callable[..., TinyCausal]) -> None:
    rng = np.random.default_rng(5)
    group = Group(draw_ids(rng, 60), [draw_ids(rng, 10) for _ in range(8)])
    run = RunContext()
    list(make("qwen2").model.new_reader().read([group], run))

    tokens = [(timing.tokens, timing.past_length) for timing in run.timings if timing.phase == "prefill"]
    assert tokens == [(60, 0), (8 * 9, 60)], "the last token of a suffix is never read"


def test_reading_stops_between_two_calls(make: Callable[..., TinyCausal]) -> None:
    looks = iter([False, False, True])
    run = RunContext(should_stop=lambda: next(looks))
    with pytest.raises(Stopped):
        list(PackedReader(make("llama").model.graphs, TIGHT).read(mixture(), run))
    assert len(run.timings) == 2


@pytest.mark.parametrize("name", MODELS)
def test_in_int8_a_row_does_not_depend_on_other_rows(make: Callable[..., TinyCausal], name: str) -> None:
    """With one scale for a whole tensor, other rows would change a row by about as much as int8 itself does."""
    made, groups = make(name, Precision.INT8), mixture()
    exact = read(make(name).model.new_reader(), groups)
    alone = [read(made.model.new_reader(is_packed=False), [group])[0] for group in groups]

    for limits in LIMITS.values():
        # In a call of another shape attention sums in another order, so that a value may round the other way.
        found = read(PackedReader(made.model.graphs, limits), groups)
        flat = np.concatenate([np.concatenate(group) for group in found])
        wanted = np.concatenate([np.concatenate(group) for group in alone])
        drift = np.abs(np.concatenate([np.concatenate(group) for group in exact]) - wanted)
        assert np.median(np.abs(flat - wanted)) < 0.01 * np.median(drift)
        assert np.abs(flat - wanted).max() < drift.max()


def test_weights_in_uint8_give_the_bits_of_weights_in_int8(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of small weights, whose sums no processor cuts."""
    exact_int8()  # cached, with whole weights
    monkeypatch.setattr(matrix_products._Columns, "quantized", property(lambda columns: columns._both()[0] // 2))
    monkeypatch.setattr(embeddings, "round_to_nearest", lambda rows, scales: round_to_nearest(rows, scales) // 2)
    folder, found = write_tiny(tmp_path, "llama", Precision.INT8).folder, []
    for kind in (Int8.SIGNED, Int8.UNSIGNED):
        monkeypatch.setattr(native_session, "exact_int8", lambda kind=kind: kind)
        found.append(read(NativeCausal.open(folder).new_reader(), mixture()))

    assert difference(*found) == 0.0


def test_int8_is_refused_where_no_int8_product_is_exact(
    make: Callable[..., TinyCausal], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make("llama", Precision.INT8).folder
    monkeypatch.setattr("worker.engine.runtime.native_session.exact_int8", lambda: Int8.NEITHER)
    with pytest.raises(ModelError, match="int8 product"):
        NativeCausal.open(folder)


def test_a_window_is_refused_on_an_onnxruntime_that_computes_it_wrongly(
    make: Callable[..., TinyCausal], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert windows_are_exact()
    monkeypatch.setattr("worker.engine.causal.native.graphs.windows_are_exact", lambda: False)
    NativeCausal.open(make("mistral").folder)
    with pytest.raises(ModelError, match=r"one token.*long"):
        NativeCausal.open(make("mistral, window").folder)


def test_files_of_different_models_are_refused(make: Callable[..., TinyCausal], tmp_path: Path) -> None:
    for file in make("llama").folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    text = (tmp_path / "kvjobs.json").read_text()
    (tmp_path / "kvjobs.json").write_text(text.replace('"llama"', '"qwen2"'))
    with pytest.raises(ModelError, match="different models"):
        NativeCausal.open(tmp_path)
    (tmp_path / "kvjobs.json").write_text(text.replace('"llama"', '"marian"'))
    with pytest.raises(ModelError, match="scores no text"):
        NativeCausal.open(tmp_path)


def test_a_model_reports_its_sizes(make: Callable[..., TinyCausal]) -> None:
    model = make("llama").model
    assert (model.max_positions, model.vocab_size) == (MAX_POSITIONS, VOCAB_SIZE)
