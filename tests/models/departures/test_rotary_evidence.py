"""Rotary frequencies, scaling and longrope: which are found in a graph, and which are reported as missing."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.causal_exports import BASE, HEAD_SIZE, PAIRS, POSITIONS, Export, LongRope
from tests.messages import line_with
from tests.models.departures.node_graphs import PLAIN, SIZES, SOFTMAX, find, rotary_nodes, rotary_tables
from worker.graphs.causal.rope import Rope
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


@pytest.mark.parametrize("written", [rotary_nodes, rotary_tables])
@pytest.mark.parametrize("kind", [LLAMA3, YARN, {"type": "linear", "factor": 2.0}], ids=lambda kind: str(kind)[:20])
def test_scaling_in_the_graph_is_found_and_missing_scaling_is_reported(tmp_path, kind, written):
    asked = {"rope_scaling": kind, "rope_theta": BASE}

    assert find(tmp_path, written(*scaled(kind)), **asked) == Departures()
    for other, how in ((PLAIN, "without any scaling"), (PLAIN / 3, "by other frequencies")):
        (sentence,) = find(tmp_path, written(other), **asked).contradictions
        assert line_with(sentence, kind.get("rope_type", "linear"), how)


def test_without_recognizable_frequencies_there_is_a_suspicion_not_a_contradiction(tmp_path):
    found = find(tmp_path, [("Cos", ["angles"], {})], rope_scaling=LLAMA3, rope_theta=BASE)

    assert found == Departures(
        suspicions=("config.json asks for rope_scaling of the kind llama3, which is not seen in the graph",)
    )


@pytest.mark.parametrize(
    "asked",
    [
        {"rope_theta": None},  # the default of its class, which is unknown
        {"rope_scaling": {"rope_type": "made up"}},
        {"rope_scaling": {"rope_type": "linear"}},  # the factor is missing
        {"rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 2.0}}},
    ],
)
def test_a_configuration_without_known_scaling_contradicts_no_graph(tmp_path, asked):
    assert find(tmp_path, rotary_nodes(PLAIN / 3), **({"rope_theta": BASE} | asked)) == Departures()


@pytest.mark.parametrize("value", [None, 0, -1, 0.5, True, "many", [], [7], {}, {"rope_type": []}])
def test_invalid_values_in_config_json_raise_no_unexpected_exception(tmp_path, value):
    names = (
        "rope_scaling", "rope_parameters", "rope_theta", "rope_local_base_freq", "partial_rotary_factor", "alibi",
        "qk_rope_head_dim", "original_max_position_embeddings", "layer_types", "sliding_window", "max_window_layers",
        "use_sliding_window", "window_size", "attention_layers", "attn_logit_softcapping", "final_logit_softcapping",
        "clip_qkv", "attn_config", "scale_attn_by_inverse_layer_idx", "model_type",
    )  # fmt: skip
    nodes = [*rotary_nodes(PLAIN), SOFTMAX, ("Div", ["scores", np.float32(1)], {})]
    find(tmp_path, nodes)
    content = GraphContent.read(tmp_path / "model.onnx")
    for model_type in ("mistral", "falcon", "gpt_neo"):
        for name in names:
            config = ROPE.config() | {"alibi": True, "use_sliding_window": True, "sliding_window": 16, "window_size": 8}
            described = SIZES | config | {"model_type": model_type} | {name: value}
            for look in departures._CHECKS:
                list(look(content, CausalConfig.of(described, "config.json")))


@pytest.mark.parametrize("asked", [{}, {"rope_scaling": None}, {"rope_scaling": {"type": "dynamic", "factor": 4.0}}])
@pytest.mark.parametrize("written", [rotary_nodes, rotary_tables])
def test_a_different_base_is_reported_if_the_frequencies_are_found(tmp_path, asked, written):
    asked = {"rope_theta": BASE, **asked}

    assert find(tmp_path, written(PLAIN), **asked) == Departures()
    assert find(tmp_path, [("Cos", ["angles"], {}), SOFTMAX], **asked) == Departures()
    (sentence,) = find(tmp_path, written(PLAIN / 3), **asked).contradictions
    assert "rope_theta = 100" in sentence


def test_layers_with_a_window_may_have_their_own_rotary_base(tmp_path):
    """The layers of Gemma-3 do."""
    layers = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 16, "num_hidden_layers": 2}
    asked = {"rope_theta": BASE, "rope_local_base_freq": 50.0, **layers}
    local = 50.0 ** (-np.arange(PAIRS) / PAIRS)
    windows = {"local_window_size": 16}

    def of(*frequencies: np.ndarray) -> Departures:
        nodes = [rotary_tables(one)[0] for one in frequencies]
        return find(tmp_path, [(*nodes[0][:2], windows), nodes[1]], **asked)

    assert of(local, PLAIN) == Departures()
    assert "rope_theta = 100" in of(local, local).contradictions[0]
    assert "rope_local_base_freq = 50" in of(PLAIN, PLAIN).contradictions[0]


@pytest.mark.parametrize("scaling", [None, {"rope_type": "linear", "factor": 8.0}])
def test_frequencies_that_no_layer_uses_may_be_missing(tmp_path, scaling):
    """If all layers of a Gemma-3 have a window, exporters leave the frequencies of the other kind out."""
    layers = {"layer_types": ["sliding_attention"] * 2, "sliding_window": 16, "num_hidden_layers": 2}
    asked = {"rope_theta": BASE, "rope_scaling": scaling, "rope_local_base_freq": 50.0, **layers}
    nodes = [(*rotary_tables(50.0 ** (-np.arange(PAIRS) / PAIRS))[0][:2], {"local_window_size": 16})] * 2

    assert find(tmp_path, nodes, **asked) == Departures()
    assert find(tmp_path, [(*rotary_tables(PLAIN)[0][:2], {"local_window_size": 16})] * 2, **asked).contradictions


def longrope(tmp_path: Path, frequencies: np.ndarray, factor: float, **more: Any) -> Departures:
    return find(tmp_path, rotary_nodes(frequencies, factor), **ROPE.config(), **more)


@pytest.mark.parametrize("kind", ["longrope", "su"])
def test_longrope_limits_texts_to_the_length_where_the_long_factors_begin(tmp_path, kind):
    found = find(tmp_path, rotary_nodes(PLAIN / ROPE.short, ROPE.factor), **ROPE.config(kind))

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
def test_longrope_with_other_factors_is_a_contradiction(tmp_path, frequencies, factor, what):
    found = longrope(tmp_path, frequencies, factor)

    assert found.limit is None
    assert what in found.contradictions[0]


def test_the_original_length_in_rope_scaling_counts_only_where_transformers_reads_it(tmp_path):
    """transformers 4 reads `factor` there, but the length only beside rope_scaling; version 5 reads rope_parameters."""
    short = 1 + 0.05 * np.arange(PAIRS)
    scaling = {
        "rope_type": "longrope", "short_factor": short.tolist(), "long_factor": (3 * short).tolist(), "factor": 4.0,
        "original_max_position_embeddings": POSITIONS // 2,
    }  # fmt: skip

    def of(stretch: float, original: int, **config: Any) -> Departures:
        factor = (1 + np.log(stretch) / np.log(original)) ** 0.5
        return find(tmp_path, rotary_nodes(PLAIN / short, factor), rope_theta=BASE, **config)

    assert of(4.0, POSITIONS, rope_scaling=scaling) == Departures()
    for config in ({"rope_parameters": scaling}, {"rope_scaling": {**scaling, "factor": None}}):
        limit = of(2.0, POSITIONS // 2, **config).limit
        assert limit is not None
        assert limit.positions == POSITIONS // 2


def test_longrope_whose_factors_never_change_has_no_limit(tmp_path):
    for more in ({"max_position_embeddings": 24}, {"original_max_position_embeddings": POSITIONS}):
        short = PLAIN / ROPE.short
        assert find(tmp_path, rotary_nodes(short), **(ROPE.config() | more)) == Departures()


@pytest.mark.parametrize("attention", ["plain", "grouped"])
def test_longrope_is_found_in_the_graphs_of_both_exporters(tmp_path, attention):
    folder = Export(attention=attention, rope=ROPE).write(tmp_path)
    assert (found := departures_in(folder)).limit
    assert found.limit.positions == ROPE.original

    # genai writes no config.json: the length where the factors change is read from the graph.
    (folder / "config.json").unlink()
    (folder / "genai_config.json").write_text(
        '{"model": {"context_length": 96, "decoder": {"filename": "model.onnx"}}}'
    )
    alone = departures_in(folder).limit
    assert (alone and alone.positions) == (24 if attention == "grouped" else None)
