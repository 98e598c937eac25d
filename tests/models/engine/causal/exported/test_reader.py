"""Causal graphs in the layouts of other exporters, compared with the same network in numpy."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobs.errors import ModelError, Stopped
from tests.causal_checkpoints import write_causal_checkpoint
from tests.causal_exports import HEAD_SIZE, POSITIONS, VOCAB, WIDTH, Export, LongRope
from tests.models.engine.causal.exported.layouts import LAYOUTS, MODELS, open_export
from tests.repetition import cover, times
from worker.engine.causal.exported import reader as exported_reader
from worker.engine.causal.exported.capabilities import Capabilities
from worker.engine.causal.exported.graph import ExportedCausalGraph
from worker.engine.causal.exported.model import ExportedCausal
from worker.engine.causal.open import open_causal_model
from worker.engine.causal.protocol import Group, LogProbs
from worker.engine.runtime.run_context import RunContext
from worker.models.registry import BUNDLED, DEFAULT_MODEL

EXPECTED_CAPABILITIES = {
    "optimum": Capabilities(
        batches=True, pads=True, extends=True, extends_batches=True, steps=True, skips_padding=True
    ),
    "optimum, no past": Capabilities(
        batches=True, pads=True, extends=False, extends_batches=False, steps=False, skips_padding=False
    ),
    "optimum, no positions": Capabilities(
        batches=True, pads=True, extends=True, extends_batches=True, steps=True, skips_padding=False
    ),
    "reads its padding": Capabilities(
        batches=True, pads=False, extends=True, extends_batches=True, steps=True, skips_padding=True
    ),
    "genai": Capabilities(
        batches=True, pads=True, extends=True, extends_batches=False, steps=True, skips_padding=False
    ),
    "genai, float16": Capabilities(
        batches=True, pads=True, extends=True, extends_batches=False, steps=True, skips_padding=False
    ),
}


def read(model: ExportedCausal, groups: Sequence[Group], *, is_packed: bool = True) -> list[list[LogProbs]]:
    found = dict(model.new_reader(is_packed=is_packed).read(groups, RunContext()))
    assert sorted(found) == list(range(len(groups)))
    return [found[index] for index in range(len(groups))]


def expected(export: Export, groups: Sequence[Group]) -> list[list[np.ndarray]]:
    return [
        [
            export.log_probs([*group.prefix, *suffix])[max(len(group.prefix) + group.num_given(index) - 1, 0) :]
            if len(group.prefix) + len(suffix) > 1
            else np.empty(0)
            for index, suffix in enumerate(group.suffixes)
        ]
        for group in groups
    ]


def assert_same(found: list[list[LogProbs]], right: Sequence[Sequence[Any]], *, within: float = 1e-4) -> None:
    for tensor, expected in zip(found, right, strict=True):
        for log_probs, wanted in zip(tensor, expected, strict=True):
            assert log_probs.dtype == np.float32
            np.testing.assert_allclose(log_probs, wanted, rtol=0, atol=within)


def tolerance(export: Export) -> float:
    return 1e-4 if export.dtype is np.float32 else 0.1  # logits spread over 20; float16 has 11 bits


def ids(rng: np.random.Generator, count: int) -> list[int]:
    return [int(token_id) for token_id in rng.integers(0, VOCAB, count)]


def some_groups(seed: int = 0) -> list[Group]:
    """Groups without and with a prefix, from one token to nearly all positions of the model."""
    rng = np.random.default_rng(seed)
    lone = [Group([], [ids(rng, count)]) for count in (1, 2, 20, 18, 20, POSITIONS)]
    begun = [Group([1], [ids(rng, count)]) for count in (1, 19, POSITIONS - 1)]
    shared = [
        Group(ids(rng, length), [ids(rng, count) for count in (1, 6, 5, 6, 12)]) for length in (2, 40, POSITIONS - 12)
    ]
    given = [
        Group(ids(rng, length), [ids(rng, count) for count in (1, 6, 5, 6, 12)], [0, 5, 1, 0, 11]) for length in (2, 40)
    ]
    return [*lone, *begun, *shared, *given]


def test_every_layout_gives_the_log_probs_of_the_network(layout: str) -> None:
    export, groups = LAYOUTS[layout], some_groups()

    assert_same(read(MODELS[layout], groups), expected(export, groups), within=tolerance(export))


@pytest.mark.parametrize("attention", ["plain", "grouped"])
def test_longrope_is_right_up_to_the_length_where_its_factors_change(
    tmp_path: Path, attention: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Optimum exports only the short factors; a graph of genai uses the long ones for later positions."""
    export = Export(attention=attention, rope=LongRope(original=24))
    model = open_export(tmp_path, export)
    assert model.max_positions == 24
    assert model.departures.limit
    rng = np.random.default_rng(3)
    groups = [Group([], [ids(rng, count)]) for count in (2, 20, 25)] + [Group(ids(rng, 20), [ids(rng, 5), ids(rng, 3)])]
    monkeypatch.setattr(exported_reader, "MAX_TOKENS", 16)  # so that sequences are read in pieces

    assert_same(read(model, groups), expected(export, groups))

    longer = [Group([], [ids(rng, 40)])]
    gap = np.abs(read(model, longer)[0][0] - expected(export, longer)[0][0])
    assert gap.max() > 0.1, "beyond the limit the graph is wrong"


def test_a_graph_that_contradicts_its_configuration_is_refused_unless_accepted_by_option(tmp_path: Path) -> None:
    folder = Export().write(tmp_path, clip_qkv=8.0)

    with pytest.raises(ModelError, match=r"clip_qkv = 8.*--accept-departures"):
        ExportedCausal.open(folder)


def test_a_batch_gives_each_sequence_what_it_gets_alone(layout: str) -> None:
    """`is_packed=False`, the reference, runs one sequence at a time and shares no prefix."""
    export, groups = LAYOUTS[layout], some_groups(1)
    within = 2e-5 if export.dtype is np.float32 else 0.1

    assert_same(read(MODELS[layout], groups), read(MODELS[layout], groups, is_packed=False), within=within)


@pytest.mark.parametrize(("layout", "tokens"), cover(LAYOUTS, [1, 3, 16]), indirect=["layout"])
def test_reading_in_pieces_with_the_cache_equals_reading_at_once(
    layout: str, tokens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    export, groups = LAYOUTS[layout], some_groups(2)
    monkeypatch.setattr(exported_reader, "MAX_TOKENS", tokens)
    monkeypatch.setattr(exported_reader, "MIN_PIECE", 1)
    run = RunContext()

    found = dict(MODELS[layout].new_reader().read(groups, run))

    assert_same([found[index] for index in range(len(groups))], expected(export, groups), within=tolerance(export))
    longest = max(timing.tokens for timing in run.timings if timing.phase == "prefill")
    assert longest == tokens if MODELS[layout].capabilities.extends else longest >= POSITIONS - 1


@given(data=st.data())
@settings(max_examples=times(4), suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.parametrize("name", ["optimum", "optimum, no past", "reads its padding", "genai"])
def test_the_results_of_a_group_do_not_depend_on_other_groups(
    name: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name not in MODELS:
        MODELS[name] = open_export(tmp_path_factory.mktemp("model"), LAYOUTS[name])
    some = st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=24)
    many = st.lists(st.integers(0, VOCAB - 1), min_size=33, max_size=50)
    groups = data.draw(
        st.lists(
            st.builds(Group, st.one_of(st.just([]), some, many),
                      st.lists(some, min_size=1, max_size=6)),
            min_size=1, max_size=6,
        )
    )  # fmt: skip
    monkeypatch.setattr(exported_reader, "MAX_TOKENS", data.draw(st.sampled_from([8, 40, 512])))
    monkeypatch.setattr(exported_reader, "MIN_PIECE", 4)

    found = read(MODELS[name], groups)

    assert_same(found, expected(LAYOUTS[name], groups))


@pytest.mark.parametrize("name", EXPECTED_CAPABILITIES)
def test_the_capabilities_of_a_graph_are_detected(name: str, tmp_path: Path) -> None:
    assert open_export(tmp_path, LAYOUTS[name]).capabilities == EXPECTED_CAPABILITIES[name]


def test_a_graph_that_scales_activations_over_the_batch_is_run_one_sequence_at_a_time(tmp_path: Path) -> None:
    """onnxruntime's dynamic quantization does so: another row, or a missing part of the sequence, changes every row."""
    model = open_export(tmp_path, Export(scales_batches=True))
    groups = some_groups(3)

    assert model.capabilities == Capabilities(
        batches=False, pads=False, extends=False, extends_batches=False, steps=False, skips_padding=False
    )
    for index, alone in enumerate(read(model, groups)):
        assert_same([alone], read(model, [groups[index]]), within=0)


def test_keys_and_values_in_float16_are_fed_back_in_float16(tmp_path: Path) -> None:
    model = open_export(tmp_path, Export(dtype=np.float16))

    _, present = model.graph.call([[1, 2, 3]], wants_logits=False, wants_present=True)

    assert {part.dtype for part in present} == {np.dtype(np.float16)}
    assert {part.shape for part in present} == {(1, 2, 3, HEAD_SIZE)}  # 2 key heads, not the 4 query heads


def test_mask_and_positions_continue_after_the_cached_prefix(tmp_path: Path) -> None:
    model = open_export(tmp_path, Export())
    session = LimitedSession(model.graph.session)
    reader = replace(model, graph=ExportedCausalGraph(model.graph.file, session, model.layout)).new_reader()  # type: ignore[arg-type]
    rng = np.random.default_rng(4)

    list(reader.read([Group(ids(rng, 40), [ids(rng, 6), ids(rng, 6), ids(rng, 5)])], RunContext()))

    first, second = session.feeds
    assert first["past_key_values.0.key"].shape == (1, 2, 0, HEAD_SIZE)  # empty, but the graph requires the input
    assert second["past_key_values.0.key"].shape == (3, 2, 39, HEAD_SIZE)
    assert second["attention_mask"].sum(axis=1).tolist() == [39 + 6, 39 + 6, 39 + 5]
    assert second["attention_mask"].shape == (3, 39 + 6)
    assert second["position_ids"].tolist() == [[39, 40, 41, 42, 43, 44]] * 2 + [[39, 40, 41, 42, 43, 43]]


def test_a_prefix_is_computed_once(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    group = Group(ids(rng, 60), [ids(rng, 8) for _ in range(10)])
    computed = {}
    for name in ("optimum", "genai", "optimum, no past"):
        run = RunContext()
        list(open_export(tmp_path / name, LAYOUTS[name]).new_reader().read([group], run))
        computed[name] = sum(timing.tokens for timing in run.timings if timing.phase == "prefill")

    assert computed == {"optimum": 59 + 10 * 8, "genai": 59 + 10 * 8, "optimum, no past": 10 * 67}


def test_padding_is_never_scored_and_is_at_most_15_percent(tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    groups = [Group([], [ids(rng, int(count))]) for count in rng.integers(1, POSITIONS, 60)]
    run = RunContext()

    found = dict(open_export(tmp_path, Export()).new_reader().read(groups, run))

    fed = sum(len(group.suffixes[0]) - 1 for group in groups)
    assert [len(found[index][0]) for index in range(60)] == [len(group.suffixes[0]) - 1 for group in groups]
    assert sum(timing.tokens for timing in run.timings if timing.phase == "prefill") <= 1.15 * fed
    assert sum(timing.tokens for timing in run.timings if timing.phase == "head") == fed
    assert max(timing.rows for timing in run.timings) > 4


@pytest.mark.parametrize("limit", [1, 20_000, 100_000])
def test_no_call_gives_more_logits_than_the_limit(tmp_path: Path, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the limit is below the logits of the smallest piece, the smallest piece is used."""
    export, groups = Export(), some_groups(7)
    monkeypatch.setattr(exported_reader, "MAX_BYTES", limit)
    run = RunContext()

    found = dict(open_export(tmp_path, export).new_reader().read(groups, run))

    assert_same([found[index] for index in range(len(groups))], expected(export, groups))
    assert max(timing.tokens for timing in run.timings if timing.phase == "prefill") * 4 * VOCAB <= max(
        limit, 4 * VOCAB * exported_reader.MIN_PIECE
    )


def test_buffers_are_reused_from_one_prefix_to_the_next(tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    group = Group(ids(rng, 60), [ids(rng, 8) for _ in range(10)])
    reader = open_export(tmp_path, Export()).new_reader()

    list(reader.read([group], RunContext()))
    before = reader.buffer_stats
    list(reader.read([group, group], RunContext()))

    assert before.allocations > 0
    assert before.num_bytes >= 10 * 59 * 2 * 2 * 2 * HEAD_SIZE * 4  # rows, past, layers, keys and values, K, H, bytes
    assert reader.buffer_stats == replace(before, reuses=before.reuses + 2)


def test_reading_stops_between_two_calls(tmp_path: Path) -> None:
    model, calls = open_export(tmp_path, Export()), iter([False, False, True])

    with pytest.raises(Stopped):
        list(model.new_reader().read(some_groups(), RunContext(should_stop=lambda: next(calls))))


class LimitedSession:
    """A session that records its inputs, and runs out of memory beyond `most_tokens` tokens per call."""

    def __init__(self, session: Any, most_tokens: int = 1 << 30) -> None:
        self.feeds: list[dict[str, Any]] = []
        self.refused = 0
        self._session = session
        self._most_tokens = most_tokens

    def run(self, outputs: Any, feed: dict[str, Any], options: Any) -> Any:
        if feed["input_ids"].size > self._most_tokens:
            self.refused += 1
            raise RuntimeError("Failed to allocate memory for requested buffer of size 1")
        self.feeds.append(feed)
        return self._session.run(outputs, feed, options)


@pytest.mark.parametrize("name", ["optimum", "genai"])
def test_out_of_memory_the_reader_continues_with_smaller_calls(name: str, tmp_path: Path) -> None:
    model, groups = open_export(tmp_path, LAYOUTS[name]), some_groups(9)
    session = LimitedSession(model.graph.session, most_tokens=20)
    poor = replace(model, graph=ExportedCausalGraph(model.graph.file, session, model.layout))  # type: ignore[arg-type]

    assert_same(read(poor, groups), expected(LAYOUTS[name], groups))
    assert session.refused > 0


def test_if_even_the_smallest_call_does_not_fit_the_memory_error_is_raised(tmp_path: Path) -> None:
    model = open_export(tmp_path, Export())
    session = LimitedSession(model.graph.session, most_tokens=3)
    poor = replace(model, graph=ExportedCausalGraph(model.graph.file, session, model.layout))  # type: ignore[arg-type]

    with pytest.raises(RuntimeError, match="Failed to allocate"):
        read(poor, some_groups())


def test_a_graph_in_the_onnx_folder_with_external_weights_is_opened(tmp_path: Path) -> None:
    export, groups = Export(), some_groups()
    export.write(tmp_path, graph="onnx/model.onnx", external="model.onnx_data")

    assert_same(read(ExportedCausal.open(tmp_path), groups), expected(export, groups))

    (tmp_path / "onnx" / "model.onnx_data").unlink()
    with pytest.raises(ModelError, match=r"weights .*missing"):
        ExportedCausal.open(tmp_path)


def test_the_maximum_length_is_read_from_the_configuration(tmp_path: Path) -> None:
    export = Export()

    assert open_export(tmp_path / "1", export).max_positions == POSITIONS
    assert open_export(tmp_path / "2", export, max_position_embeddings=None, n_positions=32).max_positions == 32
    assert open_export(tmp_path / "3", export, max_position_embeddings=None).max_positions == 2048
    assert open_export(tmp_path / "4", export).vocab_size == VOCAB


def test_a_graph_that_cannot_run_is_refused_when_it_is_opened(tmp_path: Path) -> None:
    folder = Export().write(tmp_path)
    model = onnx.load(folder / "model.onnx")
    (table,) = (tensor for tensor in model.graph.initializer if tensor.name == "embed")
    table.CopyFrom(onnx.numpy_helper.from_array(np.zeros((1, WIDTH), np.float32), "embed"))  # a table for id 0 alone
    onnx.save(model, folder / "model.onnx")

    with pytest.raises(ModelError, match=r"model\.onnx"):
        ExportedCausal.open(folder)


def test_nan_in_one_embedding_reaches_only_the_sequences_that_contain_it(tmp_path: Path) -> None:
    """Not another sequence of the same call, and not one that is padded with that id."""
    folder = Export().write(tmp_path)
    model = onnx.load(folder / "model.onnx")
    (table,) = (tensor for tensor in model.graph.initializer if tensor.name == "embed")
    broken = onnx.numpy_helper.to_array(table).copy()
    broken[[0, 60]] = np.nan
    table.CopyFrom(onnx.numpy_helper.from_array(broken, "embed"))
    onnx.save(model, folder / "model.onnx")
    long, short = [*range(1, 30), 31], list(range(2, 30))
    spoilt = Group([], [[*long[:-2], 60, 5]])
    opened = ExportedCausal.open(folder)

    found = read(opened, [spoilt, Group([], [long]), Group([], [short])])

    assert opened.capabilities.pads
    assert np.isnan(found[0][0][-1])
    assert_same(found[1:], expected(Export(), [Group([], [long]), Group([], [short])]))


def test_open_language_model_chooses_the_class_by_the_content_of_the_folder(tmp_path: Path) -> None:
    assert isinstance(open_causal_model(Export().write(tmp_path / "export")), ExportedCausal)
    with pytest.raises(ModelError, match=r"lacks model\.onnx"):
        open_causal_model(write_causal_checkpoint(tmp_path / "checkpoint", "llama"))
    with pytest.raises(ModelError, match=r"marian.* kv"):
        open_causal_model(BUNDLED[DEFAULT_MODEL])
