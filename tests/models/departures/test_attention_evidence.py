"""Soft caps, clips, scales and ALiBi: which are found in a graph, and which are reported as missing."""

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from tests.messages import line_with
from tests.models.departures.node_graphs import SOFTMAX, find
from worker.models.departures.departures import Departures


def capped(cap: float) -> list[tuple[str, list[Any], dict[str, Any]]]:
    """Soft caps of scores (by Div) and of logits (by Mul): the two ways in which exporters write them."""
    return [
        ("Div", ["scores", np.float32(cap)], {}),
        ("Tanh", ["out.0"], {}),
        ("Mul", ["logits", np.float32(1 / 30)], {}),
        ("Tanh", ["out.2"], {}),
        ("Mul", ["inner", np.float32(0.797)], {}),
        ("Tanh", ["out.4"], {}),  # part of an activation, not a cap
        SOFTMAX,
    ]


CAPS = {"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0}


def test_soft_caps_are_found(tmp_path):
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
def test_missing_soft_caps_are_reported(tmp_path, nodes, missing):
    found = find(tmp_path, nodes, **CAPS)

    assert len(found.contradictions) == len(missing)
    for sentence, what in zip(found.contradictions, missing, strict=True):
        assert line_with(sentence, "config.json", what)


def test_unknown_attention_operators_give_suspicions_not_contradictions(tmp_path):
    found = find(tmp_path, [("MysteriousAttention", ["q"], {})], **CAPS)

    assert found.contradictions == ()
    assert len(found.suspicions) == 2


def test_a_cap_of_the_logits_is_not_taken_for_a_cap_of_the_scores(tmp_path):
    """Even if both caps have the same value."""
    found = find(tmp_path, capped(7.0), attn_logit_softcapping=30.0, final_logit_softcapping=30.0)

    assert "attn_logit_softcapping = 30" in found.contradictions[0]


@pytest.mark.parametrize("asked", [{"clip_qkv": 8.0}, {"attn_config": {"clip_qkv": 8}}])
def test_a_clip_is_found_or_reported_as_missing(tmp_path, asked):
    clip = ("Clip", ["q", np.float32(-8), np.float32(8)], {})

    assert find(tmp_path, [clip, SOFTMAX], **asked) == Departures()
    assert "clip_qkv = 8" in find(tmp_path, [SOFTMAX], **asked).contradictions[0]
    assert find(tmp_path, [SOFTMAX], clip_qkv=None, attn_config={"clip_qkv": None}) == Departures()


@pytest.mark.parametrize(
    "form",
    [lambda n: n, lambda n: 1 / n / 4, lambda n: (n * 4) ** -0.5],
    ids=["divided", "together with the head size", "half on queries and half on keys"],
)
def test_scaling_by_the_layer_index_is_found_or_reported_as_missing(tmp_path, form):
    asked = {"scale_attn_by_inverse_layer_idx": True}
    scales = [("Mul" if form(2) < 1 else "Div", ["scores", np.float32(form(n))], {}) for n in (1, 2, 3)]

    assert find(tmp_path, [*scales, SOFTMAX], **asked) == Departures()
    (sentence,) = find(tmp_path, [*scales[:2], SOFTMAX], **asked).contradictions
    assert "scale_attn_by_inverse_layer_idx" in sentence
    assert find(tmp_path, [SOFTMAX], scale_attn_by_inverse_layer_idx=False) == Departures()


def test_scales_of_fused_attention_are_read_from_its_attributes(tmp_path):
    def fused(*scales: float) -> Departures:
        nodes = [("GroupQueryAttention", ["q"], {"scale": scale}) for scale in scales]
        return find(tmp_path, nodes, scale_attn_by_inverse_layer_idx=True)

    assert fused(1 / 4, 1 / 8, 1 / 12) == Departures()
    assert fused(1 / 4, 1 / 4, 1 / 4).contradictions


@pytest.mark.parametrize(
    ("before", "divides"),
    [
        ([("Mul", ["q", np.float32(0.5)], {}), ("Mul", ["k", np.float32(0.5)], {})], True),  # half on each side
        ([("Sqrt", ["size"], {}), ("Mul", ["q", "out.0"], {})], True),  # computed from the size, as a traced sdpa does
        ([("Identity", ["q"], {}), ("Identity", ["k"], {})], False),
        ([("Mul", ["q", np.float32(3)], {}), ("Mul", ["k", "other"], {})], False),
    ],
)
def test_a_graph_that_divides_scores_against_its_configuration_is_a_contradiction(tmp_path, before, divides):
    """Only for GPT-2: transformers ignores the setting for gpt_bigcode."""
    asked = {"model_type": "gpt2", "scale_attn_weights": False}
    products = [("MatMul", ["out.0", "out.1"], {}), ("Add", ["out.2", "mask"], {}), ("Softmax", ["out.3"], {})]
    divided = [("Identity", ["a"], {}), ("Identity", ["b"], {}), products[0], ("Div", ["out.2", np.float32(4)], {})]

    sentences = find(tmp_path, [*before, *products], **asked).contradictions

    assert bool(sentences) is divides
    assert not sentences or "scale_attn_weights = false" in sentences[0]
    assert find(tmp_path, [*divided, products[2]], **asked).contradictions
    assert find(tmp_path, [*divided, products[2]], **(asked | {"scale_attn_weights": True})) == Departures()
    assert find(tmp_path, [*divided, products[2]], **(asked | {"model_type": "gpt_bigcode"})) == Departures()
    for scale, is_named in ((0.0, True), (0.25, True), (1.0, False)):
        fused = [("MultiHeadAttention", ["q"], {"scale": scale})]
        assert bool(find(tmp_path, fused, **asked).contradictions) is is_named


def test_alibi_of_falcon_is_exact_only_up_to_the_precision_of_bfloat16(tmp_path):
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
