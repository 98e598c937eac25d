"""Rotary frequencies, scaling and longrope: which are seen in a graph, and which are named as missing."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.causal_exports import BASE, HEAD_SIZE, PAIRS, POSITIONS, Export, LongRope
from tests.models.departures.node_graphs import PLAIN, SIZES, SOFTMAX, find, tables_of, turned_by
from worker.graphs.rope import Rope
from worker.models.departures import departures
from worker.models.departures.departures import Departures, departures_in
from worker.models.departures.graph_content import GraphContent
from worker.models.layout.causal_config import CausalConfig

ROPE = LongRope()

LLAMA3 = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}  # fmt: skip

YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 24}


def scaled(kind: dict[str, Any]) -> tuple[np.ndarray, float]:
    rope = Rope.read({"rope_scaling": kind, "rope_theta": BASE}, HEAD_SIZE, POSITIONS)
    return np.asarray(rope.frequencies, np.float32), rope.factor


@pytest.mark.parametrize("written", [turned_by, tables_of])
@pytest.mark.parametrize("kind", [LLAMA3, YARN, {"type": "linear", "factor": 2.0}], ids=lambda kind: str(kind)[:20])
def test_scaling_that_a_graph_has_is_seen_and_scaling_that_it_lacks_is_named(tmp_path, kind, written):
    asked = {"rope_scaling": kind, "rope_theta": BASE}

    assert find(tmp_path, written(*scaled(kind)), **asked) == Departures()
    for other, says in ((PLAIN, "without any scaling"), (PLAIN / 3, "by other frequencies")):
        (said,) = find(tmp_path, written(other), **asked).contradictions
        assert f"of the kind {kind.get('rope_type', 'linear')}, and the graph turns positions {says}" in said


def test_where_nothing_is_seen_that_turns_nothing_definite_is_said(tmp_path):
    found = find(tmp_path, [("Cos", ["angles"], {})], rope_scaling=LLAMA3, rope_theta=BASE)

    assert found == Departures(
        suspicions=("config.json asks for rope_scaling of the kind llama3, which is not seen in the graph",)
    )


@pytest.mark.parametrize(
    "asked",
    [
        {"rope_theta": None},  # whatever its class has
        {"rope_scaling": {"rope_type": "made up"}},
        {"rope_scaling": {"rope_type": "linear"}},  # lacks its factor
        {"rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 2.0}}},
    ],
)
def test_what_asks_for_no_known_scaling_accuses_nobody(tmp_path, asked):
    assert find(tmp_path, turned_by(PLAIN / 3), **({"rope_theta": BASE} | asked)) == Departures()


@pytest.mark.parametrize("value", [None, 0, -1, 0.5, True, "many", [], [7], {}, {"rope_type": []}])
def test_values_that_make_no_sense_ask_for_nothing_that_ends_in_a_traceback(tmp_path, value):
    names = (
        "rope_scaling", "rope_parameters", "rope_theta", "rope_local_base_freq", "partial_rotary_factor", "alibi",
        "qk_rope_head_dim", "original_max_position_embeddings", "layer_types", "sliding_window", "max_window_layers",
        "use_sliding_window", "window_size", "attention_layers", "attn_logit_softcapping", "final_logit_softcapping",
        "clip_qkv", "attn_config", "scale_attn_by_inverse_layer_idx", "model_type",
    )  # fmt: skip
    nodes = [*turned_by(PLAIN), SOFTMAX, ("Div", ["scores", np.float32(1)], {})]
    find(tmp_path, nodes)
    content = GraphContent.read(tmp_path / "model.onnx")
    for model_type in ("mistral", "falcon", "gpt_neo"):
        for name in names:
            config = ROPE.config() | {"alibi": True, "use_sliding_window": True, "sliding_window": 16, "window_size": 8}
            said = SIZES | config | {"model_type": model_type} | {name: value}
            for look in departures._CHECKS:
                list(look(content, CausalConfig.of(said, "config.json")))


@pytest.mark.parametrize("asked", [{}, {"rope_scaling": None}, {"rope_scaling": {"type": "dynamic", "factor": 4.0}}])
@pytest.mark.parametrize("written", [turned_by, tables_of])
def test_another_base_is_named_where_it_is_seen(tmp_path, asked, written):
    asked = {"rope_theta": BASE, **asked}

    assert find(tmp_path, written(PLAIN), **asked) == Departures()
    assert find(tmp_path, [("Cos", ["angles"], {}), SOFTMAX], **asked) == Departures()
    (said,) = find(tmp_path, written(PLAIN / 3), **asked).contradictions
    assert "rope_theta = 100, and the graph turns positions by other frequencies" in said


def test_layers_with_a_window_may_turn_by_a_base_of_their_own(tmp_path):
    """As Gemma-3's do."""
    layers = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 16, "num_hidden_layers": 2}
    asked = {"rope_theta": BASE, "rope_local_base_freq": 50.0, **layers}
    local = 50.0 ** (-np.arange(PAIRS) / PAIRS)
    windows = {"local_window_size": 16}

    def of(*frequencies: np.ndarray) -> Departures:
        nodes = [tables_of(one)[0] for one in frequencies]
        return find(tmp_path, [(*nodes[0][:2], windows), nodes[1]], **asked)

    assert of(local, PLAIN) == Departures()
    assert "rope_theta = 100" in of(local, local).contradictions[0]
    assert "rope_local_base_freq = 50, and no layer" in of(PLAIN, PLAIN).contradictions[0]


@pytest.mark.parametrize("scaling", [None, {"rope_type": "linear", "factor": 8.0}])
def test_frequencies_that_no_layer_uses_are_not_asked_for(tmp_path, scaling):
    """Of Gemma-3 where all layers have a window: exporters leave the others out."""
    layers = {"layer_types": ["sliding_attention"] * 2, "sliding_window": 16, "num_hidden_layers": 2}
    asked = {"rope_theta": BASE, "rope_scaling": scaling, "rope_local_base_freq": 50.0, **layers}
    nodes = [(*tables_of(50.0 ** (-np.arange(PAIRS) / PAIRS))[0][:2], {"local_window_size": 16})] * 2

    assert find(tmp_path, nodes, **asked) == Departures()
    assert find(tmp_path, [(*tables_of(PLAIN)[0][:2], {"local_window_size": 16})] * 2, **asked).contradictions


def longrope(tmp_path: Path, frequencies: np.ndarray, factor: float, **more: Any) -> Departures:
    return find(tmp_path, turned_by(frequencies, factor), **ROPE.config(), **more)


@pytest.mark.parametrize("kind", ["longrope", "su"])
def test_longrope_ends_where_the_long_factors_begin(tmp_path, kind):
    found = find(tmp_path, turned_by(PLAIN / ROPE.short, ROPE.factor), **ROPE.config(kind))

    assert found.limit is not None
    assert found.limit.positions == 24
    assert "(original_max_position_embeddings)" in found.limit.text
    assert found.contradictions == found.suspicions == ()


@pytest.mark.parametrize(
    ("frequencies", "factor", "what"),
    [
        (PLAIN / ROPE.long, ROPE.factor, "the short_factor of it is not in the graph"),
        (PLAIN, ROPE.factor, "the short_factor of it is not in the graph"),
        (PLAIN / ROPE.short, 1.0, f"the attention factor, {ROPE.factor:.4g}, of it is not in the graph"),
    ],
)
def test_longrope_of_other_factors_is_refused(tmp_path, frequencies, factor, what):
    found = longrope(tmp_path, frequencies, factor)

    assert found.limit is None
    assert what in found.contradictions[0]


def test_an_original_length_within_rope_scaling_counts_where_transformers_reads_it(tmp_path):
    """Version 4 reads `factor` there, and the length beside rope_scaling alone; version 5 has rope_parameters."""
    short = 1 + 0.05 * np.arange(PAIRS)
    said = {
        "rope_type": "longrope", "short_factor": short.tolist(), "long_factor": (3 * short).tolist(), "factor": 4.0,
        "original_max_position_embeddings": POSITIONS // 2,
    }  # fmt: skip

    def of(stretch: float, original: int, **config: Any) -> Departures:
        factor = (1 + np.log(stretch) / np.log(original)) ** 0.5
        return find(tmp_path, turned_by(PLAIN / short, factor), rope_theta=BASE, **config)

    assert of(4.0, POSITIONS, rope_scaling=said) == Departures()
    for config in ({"rope_parameters": said}, {"rope_scaling": {**said, "factor": None}}):
        limit = of(2.0, POSITIONS // 2, **config).limit
        assert limit is not None
        assert limit.positions == POSITIONS // 2


def test_longrope_that_never_changes_has_no_limit(tmp_path):
    for more in ({"max_position_embeddings": 24}, {"original_max_position_embeddings": POSITIONS}):
        short = PLAIN / ROPE.short
        assert find(tmp_path, turned_by(short), **(ROPE.config() | more)) == Departures()


@pytest.mark.parametrize("attention", ["plain", "grouped"])
def test_longrope_is_seen_in_what_exporters_write(tmp_path, attention):
    folder = Export(attention=attention, rope=ROPE).write(tmp_path)
    assert (found := departures_in(folder)).limit
    assert found.limit.positions == ROPE.original

    # genai writes no config.json: the graph itself says where it chooses.
    (folder / "config.json").unlink()
    (folder / "genai_config.json").write_text(
        '{"model": {"context_length": 96, "decoder": {"filename": "model.onnx"}}}'
    )
    alone = departures_in(folder).limit
    assert (alone and alone.positions) == (24 if attention == "grouped" else None)
