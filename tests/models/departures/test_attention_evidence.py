"""Soft caps, clips, scales and ALiBi: which are seen in a graph, and which are named as missing."""

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from tests.models.departures.node_graphs import SOFTMAX, find
from worker.models.departures.departures import Departures


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
