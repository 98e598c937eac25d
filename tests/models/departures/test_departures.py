"""Where graphs do what their configuration asks for, and where they do not."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from jobs.errors import ModelError
from tests.causal_exports import BASE, HEAD_SIZE, PAIRS, POSITIONS, Export, LongRope
from worker.graphs.rope import Rope
from worker.models.departures import departures, window_evidence
from worker.models.departures.departures import Departures, departures_in, find_departures
from worker.models.departures.graph_content import GraphContent
from worker.models.layout.causal_config import CausalConfig

PLAIN = BASE ** (-np.arange(PAIRS) / PAIRS)
ROPE = LongRope()
LLAMA3 = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}  # fmt: skip
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 24}
SIZES = {"hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 3, "max_position_embeddings": POSITIONS}
SOFTMAX = ("Softmax", ["scores"], {})


def find(tmp_path: Path, nodes: Sequence[tuple[str, list[Any], dict[str, Any]]], **config: Any) -> Departures:
    """Of a graph of these nodes, whose inputs are names or constants."""
    initializers, made = [], []
    for place, (op, inputs, attributes) in enumerate(nodes):
        names = []
        for value in inputs:
            if not isinstance(value, str):
                initializers.append(numpy_helper.from_array(np.asarray(value), f"constant.{len(initializers)}"))
                value = initializers[-1].name
            names.append(value)
        made.append(helper.make_node(op, names, [f"out.{place}"], **attributes))
    output = helper.make_tensor_value_info("out.0", TensorProto.FLOAT, None)
    file = tmp_path / "model.onnx"
    onnx.save(helper.make_model(helper.make_graph(made, "some", [], [output], initializers)), file)
    return find_departures(file, CausalConfig.of(SIZES | config, "config.json"))


def scaled(kind: dict[str, Any]) -> tuple[np.ndarray, float]:
    rope = Rope.read({"rope_scaling": kind, "rope_theta": BASE}, HEAD_SIZE, POSITIONS)
    return np.asarray(rope.frequencies, np.float32), rope.factor


def turned_by(frequencies: np.ndarray, factor: float = 1.0) -> list[tuple[str, list[Any], dict[str, Any]]]:
    """As Optimum writes it."""
    return [
        ("MatMul", [frequencies.astype(np.float32)[:, None], "positions"], {}),
        ("Transpose", ["out.0"], {}),
        ("Concat", ["out.1", "out.1"], {"axis": -1}),
        ("Cos", ["out.2"], {}),
        ("Mul", ["out.3", np.float32(factor)], {}),
    ]


def tables_of(frequencies: np.ndarray, factor: float = 1.0) -> list[tuple[str, list[Any], dict[str, Any]]]:
    """As genai writes it."""
    angles = np.outer(np.arange(POSITIONS), frequencies)
    tables = [(factor * function(angles)).astype(np.float16) for function in (np.cos, np.sin)]
    return [("GroupQueryAttention", ["q", "k", "v", "", "", "ends", "longest", *tables], {})]


# --- rotary positions


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
            for look in departures._LOOKS:
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


# --- soft caps, clips, scales, ALiBi


def capped(cap: float) -> list[tuple[str, list[Any], dict[str, Any]]]:
    """As both exporters write it; one of them multiplies."""
    return [
        ("Div", ["scores", np.float32(cap)], {}),
        ("Tanh", ["out.0"], {}),
        ("Mul", ["logits", np.float32(1 / 30)], {}),
        ("Tanh", ["out.2"], {}),
        ("Mul", ["inner", np.float32(0.797)], {}),
        ("Tanh", ["out.4"], {}),  # of an activation
        SOFTMAX,
    ]


CAPS = {"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0}


def test_soft_caps_are_seen(tmp_path):
    fused = [("GroupQueryAttention", ["q"], {"softcap": 50.0}), *capped(7.0)[2:4]]
    fused[2] = ("Tanh", ["out.1"], {})

    assert find(tmp_path, capped(50.0), **CAPS) == Departures()
    assert find(tmp_path, fused, **CAPS) == Departures()
    assert find(tmp_path, [SOFTMAX], attn_logit_softcapping=None, final_logit_softcapping=None) == Departures()


@pytest.mark.parametrize(
    ("nodes", "missing"),
    [
        (capped(7.0), ["attn_logit_softcapping = 50"]),
        ([SOFTMAX], ["final_logit_softcapping = 30", "attn_logit_softcapping = 50"]),
        ([("GroupQueryAttention", ["q"], {}), *capped(50.0)[:1]], ["final_logit", "attn_logit"]),
    ],
)
def test_soft_caps_that_are_missing_are_named(tmp_path, nodes, missing):
    found = find(tmp_path, nodes, **CAPS)

    assert len(found.contradictions) == len(missing)
    for said, what in zip(found.contradictions, missing, strict=True):
        assert f"config.json asks for {what}" in said


def test_of_attention_that_is_not_known_nothing_definite_is_said(tmp_path):
    found = find(tmp_path, [("MysteriousAttention", ["q"], {})], **CAPS)

    assert found.contradictions == ()
    assert len(found.suspicions) == 2


def test_a_cap_of_logits_is_none_of_scores(tmp_path):
    """Though both may be capped at one number."""
    found = find(tmp_path, capped(7.0), attn_logit_softcapping=30.0, final_logit_softcapping=30.0)

    assert "attn_logit_softcapping = 30" in found.contradictions[0]


@pytest.mark.parametrize("asked", [{"clip_qkv": 8.0}, {"attn_config": {"clip_qkv": 8}}])
def test_a_clip_is_seen_or_missed(tmp_path, asked):
    clip = ("Clip", ["q", np.float32(-8), np.float32(8)], {})

    assert find(tmp_path, [clip, SOFTMAX], **asked) == Departures()
    assert "clip_qkv = 8, and the graph clips nothing" in find(tmp_path, [SOFTMAX], **asked).contradictions[0]
    assert find(tmp_path, [SOFTMAX], clip_qkv=None, attn_config={"clip_qkv": None}) == Departures()


@pytest.mark.parametrize(
    "form",
    [lambda n: n, lambda n: 1 / n / 4, lambda n: (n * 4) ** -0.5],
    ids=["divided", "with the size of a head", "half on queries and half on keys"],
)
def test_scores_that_later_layers_scale_down_are_seen_or_missed(tmp_path, form):
    asked = {"scale_attn_by_inverse_layer_idx": True}
    scales = [("Mul" if form(2) < 1 else "Div", ["scores", np.float32(form(n))], {}) for n in (1, 2, 3)]

    assert find(tmp_path, [*scales, SOFTMAX], **asked) == Departures()
    (said,) = find(tmp_path, [*scales[:2], SOFTMAX], **asked).contradictions
    assert "scale_attn_by_inverse_layer_idx, and the graph scales the scores of all layers alike" in said
    assert find(tmp_path, [SOFTMAX], scale_attn_by_inverse_layer_idx=False) == Departures()


def test_fused_attention_has_its_scales_as_attributes(tmp_path):
    def fused(*scales: float) -> Departures:
        nodes = [("GroupQueryAttention", ["q"], {"scale": scale}) for scale in scales]
        return find(tmp_path, nodes, scale_attn_by_inverse_layer_idx=True)

    assert fused(1 / 4, 1 / 8, 1 / 12) == Departures()
    assert fused(1 / 4, 1 / 4, 1 / 4).contradictions


@pytest.mark.parametrize(
    ("before", "divides"),
    [
        ([("Mul", ["q", np.float32(0.5)], {}), ("Mul", ["k", np.float32(0.5)], {})], True),  # half on either side
        ([("Sqrt", ["size"], {}), ("Mul", ["q", "out.0"], {})], True),  # worked out from the size, as sdpa is traced
        ([("Identity", ["q"], {}), ("Identity", ["k"], {})], False),
        ([("Mul", ["q", np.float32(3)], {}), ("Mul", ["k", "other"], {})], False),
    ],
)
def test_scores_that_are_not_to_be_divided_and_are_refuse_the_graph(tmp_path, before, divides):
    """GPT-2's alone: of gpt_bigcode, transformers leaves the division out."""
    asked = {"model_type": "gpt2", "scale_attn_weights": False}
    products = [("MatMul", ["out.0", "out.1"], {}), ("Add", ["out.2", "mask"], {}), ("Softmax", ["out.3"], {})]
    divided = [("Identity", ["a"], {}), ("Identity", ["b"], {}), products[0], ("Div", ["out.2", np.float32(4)], {})]

    said = find(tmp_path, [*before, *products], **asked).contradictions

    assert bool(said) is divides
    assert not said or "scale_attn_weights = false, and the graph divides scores" in said[0]
    assert find(tmp_path, [*divided, products[2]], **asked).contradictions
    assert find(tmp_path, [*divided, products[2]], **(asked | {"scale_attn_weights": True})) == Departures()
    assert find(tmp_path, [*divided, products[2]], **(asked | {"model_type": "gpt_bigcode"})) == Departures()
    for scale, is_named in ((0.0, True), (0.25, True), (1.0, False)):
        fused = [("MultiHeadAttention", ["q"], {"scale": scale})]
        assert bool(find(tmp_path, fused, **asked).contradictions) is is_named


@pytest.mark.parametrize("wrong", ["SimplifiedLayerNormalization", "SkipSimplifiedLayerNormalization"])
def test_an_architecture_with_layer_norm_has_it_in_its_graph(tmp_path, wrong):
    """genai's graph of OLMo has RMSNorm."""
    (said,) = find(tmp_path, [(wrong, ["x"], {}), SOFTMAX], model_type="olmo").contradictions

    assert said.startswith("config.json names the architecture olmo, which normalizes by LayerNorm")
    assert find(tmp_path, [("LayerNormalization", ["x"], {}), SOFTMAX], model_type="olmo") == Departures()
    assert find(tmp_path, [(wrong, ["x"], {}), SOFTMAX], model_type="llama") == Departures()
    assert find(tmp_path, [(wrong, ["x"], {}), SOFTMAX], type="olmo").contradictions  # as in genai_config.json


def test_alibi_of_falcon_is_as_exact_as_bfloat16(tmp_path):
    """Slopes of 4 heads are powers of two; those of 32 are not."""
    falcon = {"model_type": "falcon", "alibi": True, "max_position_embeddings": 512}
    rounded = [("Cast", ["slopes"], {"to": TensorProto.BFLOAT16})]

    limit = find(tmp_path, [SOFTMAX], **falcon).limit
    assert limit is not None
    assert limit.positions == 257
    assert "nearly every position" in find(tmp_path, [SOFTMAX], **falcon, num_attention_heads=32).contradictions[0]
    assert find(tmp_path, rounded, **falcon, num_attention_heads=32) == Departures()
    assert find(tmp_path, [SOFTMAX], model_type="falcon", alibi=False) == Departures()
    assert find(tmp_path, [SOFTMAX], **(falcon | {"max_position_embeddings": 257})) == Departures()
    assert find(tmp_path, [SOFTMAX], model_type="bloom", alibi=True) == Departures()


# --- windows

MISTRAL = {"model_type": "mistral", "sliding_window": 16}
COMPARED = [("Sub", ["places", np.int64(16)], {}), SOFTMAX]
BAND = np.tri(POSITIONS, dtype=bool) & ~np.tri(POSITIONS, k=-16, dtype=bool)


@pytest.mark.parametrize(
    "asked",
    [
        MISTRAL,
        {"model_type": "gemma2", "sliding_window": 16},
        {"model_type": "qwen2", "sliding_window": 16, "use_sliding_window": True, "max_window_layers": 1},
        {"model_type": "new", "sliding_window": 16, "layer_types": ["sliding_attention", "full_attention"]},
        {"model_type": "new", "attention_chunk_size": 16, "layer_types": ["chunked_attention", "full_attention"]},
        {"model_type": "gpt_neo", "window_size": 16, "attention_layers": ["global", "local"]},
    ],
)
def test_a_window_that_is_not_seen_is_a_limit(tmp_path, asked):
    limit = find(tmp_path, [("Add", ["heads", np.int64(16 * 16)], {}), SOFTMAX], **asked).limit

    assert limit is not None
    assert limit.positions == 16
    assert " = 16, which is not seen in the graph" in limit.text
    assert find(tmp_path, COMPARED, **asked) == Departures()
    assert find(tmp_path, [("Slice", [BAND[None, None]], {}), SOFTMAX], **asked) == Departures()
    assert find(tmp_path, [("Slice", [np.tri(POSITIONS, dtype=bool)], {}), SOFTMAX], **asked).limit


@pytest.mark.parametrize(
    "asked",
    [
        {"model_type": "llama", "sliding_window": 16},
        {"model_type": "qwen2", "sliding_window": 16, "use_sliding_window": False},
        {"model_type": "new", "sliding_window": 16, "layer_types": ["full_attention", "full_attention"]},
        {"model_type": "gpt_neo", "window_size": 16, "attention_layers": ["global", "global"]},
        {"model_type": "mistral", "sliding_window": None},
        {"model_type": "mistral", "sliding_window": POSITIONS},
    ],
)
def test_a_window_that_no_layer_has_is_none(tmp_path, asked):
    assert find(tmp_path, [SOFTMAX], **asked) == Departures()


@pytest.mark.parametrize("is_exact", [True, False])
def test_fused_attention_has_its_windows_layer_by_layer(tmp_path, monkeypatch, is_exact):
    """Where onnxruntime counts them as models do."""
    monkeypatch.setattr(window_evidence, "windows_are_exact", lambda: is_exact)

    def is_limited(asked: dict[str, Any], *windows: int) -> bool:
        nodes = [("GroupQueryAttention", ["q"], {"local_window_size": window}) for window in windows]
        return find(tmp_path, nodes, **asked).limit is not None

    gemma = {"model_type": "gemma2", "sliding_window": 16}  # each second layer sees all
    assert is_limited(MISTRAL, 16, 16, 16) is not is_exact
    assert is_limited(gemma, 16, -1, 16) is not is_exact
    assert is_limited(gemma, -1, 16, -1)
    assert is_limited(MISTRAL, 16, -1, 16)
    assert is_limited(MISTRAL, 8, 8, 8)


def test_the_shortest_limit_holds(tmp_path):
    found = find(tmp_path, turned_by(PLAIN / ROPE.short, ROPE.factor), **ROPE.config(), **MISTRAL)

    assert found.limit is not None
    assert found.limit.positions == 16


# --- what is read of a file


@pytest.mark.parametrize("place", ["in the graph", "in a file of its own"])
def test_large_constants_are_read_when_somebody_asks(tmp_path, place):
    large = np.random.default_rng(0).normal(size=(600, 512)).astype(np.float32)  # 1.2 MB
    floats = helper.make_tensor("floats", TensorProto.FLOAT, large.shape, large.ravel())  # not laid out as bytes
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "large"], ["y"])],
        "large",
        [],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(large, "large"), floats],
    )
    external = {"save_as_external_data": True, "location": "w.data"} if place == "in a file of its own" else {}
    onnx.save(helper.make_model(graph), tmp_path / "model.onnx", **external)

    content = GraphContent.read(tmp_path / "model.onnx")

    for name in ("large", "floats"):
        assert content.constants[name].shape == (600, 512)
        np.testing.assert_array_equal(content.constants[name].values(), large)
    if external:
        (tmp_path / "w.data").write_bytes(b"short")
        with pytest.raises(ModelError, match=r"w\.data ends before the tensor large"):
            content.constants["large"].values()


@pytest.mark.parametrize("content", [b"", b"nonsense", json.dumps({}).encode()])
def test_what_is_no_graph_is_said(tmp_path, content):
    (tmp_path / "model.onnx").write_bytes(content)

    with pytest.raises(ModelError, match=r"model\.onnx is not an ONNX graph"):
        GraphContent.read(tmp_path / "model.onnx")
