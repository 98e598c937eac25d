"""What a config.json of each family says, and what is refused."""

from typing import Any

import numpy as np
import pytest

from jobs.errors import ModelError
from tests.causal_families import FAMILIES, family_config
from worker.graphs.architectures import CAUSAL_ARCHITECTURES, architecture_of, lacks_head
from worker.graphs.causal.alibi import Alibi
from worker.graphs.causal.families import read_sizes

REFUSED = [
    ("stablelm", {"qk_layernorm": True}, "qk_layernorm = true, for which no graphs are built: take an ONNX export"),
    ("phi", {"qk_layernorm": True}, "qk_layernorm = true"),
    ("gpt2", {"add_cross_attention": True}, "add_cross_attention = true"),
    ("gpt2", {"activation_function": "mish"}, "activation_function = mish; supported are silu"),
    ("gemma3_text", {"use_bidirectional_attention": True}, "use_bidirectional_attention = true"),
    ("gemma3_text", {"attn_logit_softcapping": 5.0}, "attn_logit_softcapping = 5.0.* transformers leaves it out"),
    ("gemma2", {"query_pre_attn_scalar": 0}, "query_pre_attn_scalar = 0, which has to be above 0"),
    ("gemma2", {"attn_logit_softcapping": "wide"}, "attn_logit_softcapping = 'wide', which is not a number"),
    ("gemma2", {"layer_types": ["full_attention"]}, "layer_types other than 3 of"),
    ("bloom", {"apply_residual_connection_post_layernorm": True}, "apply_residual_connection_post_layernorm = true"),
    ("falcon", {"alibi": True}, r"alibi = true with keys that several heads share \(multi_query or"),
    ("falcon, groups", {"parallel_attn": False}, "new_decoder_architecture = true with parallel_attn = false"),
    ("granite", {"logits_scaling": 0}, "logits_scaling = 0, which has to be above 0"),
    ("smollm3", {"no_rope_layers": [1]}, "no_rope_layers other than a list of one number for each of 3"),
    (
        "phi3",
        {"rope_scaling": {"rope_type": "linear", "factor": 2.0}},
        "rope_type = linear; supported are default, lo",
    ),
    (
        "phi3",
        {"rope_scaling": {"type": "longrope", "short_factor": [1.0], "long_factor": [1.0]}},
        "short_factor has the shape .1,., and 4 pairs are rotated",
    ),
    ("gpt_neox", {"rotary_pct": 0.4}, r"\(default\) that are invalid: 3 of the 8 elements of a head are rotated"),
    ("granite", {"num_key_value_heads": "two"}, "num_key_value_heads = 'two', which is not a size"),
    ("granite", {"partial_rotary_factor": 0.5}, "partial_rotary_factor = 0.5; only 1"),
]


@pytest.mark.parametrize(("name", "changed", "message"), REFUSED)
def test_a_setting_that_no_graph_is_built_for_is_refused(name: str, changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        read_sizes(family_config(name, **changed))


def test_every_family_has_a_description_and_a_test() -> None:
    assert {name.partition(",")[0] for name in FAMILIES} | {"llama", "mistral", "qwen2", "qwen3"} == {
        *CAUSAL_ARCHITECTURES.values()
    }
    for name in FAMILIES:
        assert read_sizes(family_config(name)).family == name.partition(",")[0]


@pytest.mark.parametrize(("base", "family"), [("GPT2Model", "gpt2"), ("OPTModel", "opt"), ("Phi3Model", "phi3")])
def test_a_network_without_its_head_is_recognized(base: str, family: str) -> None:
    assert architecture_of({"architectures": [base]}) == family
    assert lacks_head({"architectures": [base]})


def test_an_element_and_its_partner_in_the_rotation_have_the_same_place_in_both_halves() -> None:
    """Elements 0 to 3 of 10 are rotated; the head is padded to 16."""
    sizes = read_sizes(family_config("stablelm", hidden_size=40, partial_rotary_factor=0.4))
    assert sizes.head_places.tolist() == [0, 1, 4, 5, 6, -1, -1, -1, 2, 3, 7, 8, 9, -1, -1, -1]


@pytest.mark.parametrize(
    ("changed", "bases"),
    [
        ({}, (1e4, 1e6, 1e4)),
        ({"layer_types": None, "sliding_window_pattern": 3}, (1e4, 1e4, 1e6)),
        ({"sliding_window": 500, "rope_local_base_freq": 500.0}, (500.0, 1e6, 500.0)),  # longer than any text
    ],
)
def test_layers_with_a_window_rotate_by_a_base_of_their_own_in_gemma_3(
    changed: dict[str, Any], bases: tuple[float, ...]
) -> None:
    sizes = read_sizes(family_config("gemma3_text", **changed))
    found = [rope.frequencies[1] for rope in sizes.ropes if rope is not None]
    scales = [1.0 if base < 1e6 else 4.0 for base in bases]  # rope_scaling is of the other layers
    np.testing.assert_allclose(found, [base ** (-1 / 12) / by for base, by in zip(bases, scales, strict=True)], 1e-5)


def test_rotations_by_kinds_of_layers_are_read_as_transformers_5_writes_them() -> None:
    old = family_config("gemma3_text")
    new = old | {"rope_theta": None, "rope_local_base_freq": None, "rope_scaling": None}
    new["rope_parameters"] = {
        "full_attention": {"rope_type": "linear", "factor": 4.0, "rope_theta": 1e6},
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
    }
    assert read_sizes(new) == read_sizes(old)


def test_with_longrope_texts_are_read_up_to_the_length_of_the_short_factors() -> None:
    assert read_sizes(family_config("phi3, longrope")).max_positions == 64
    assert read_sizes(family_config("phi3, longrope", original_max_position_embeddings=512)).max_positions == 128
    config = family_config("phi3, longrope")
    named = config | {"rope_scaling": None, "rope_parameters": {**config["rope_scaling"], "type": "su"}}
    assert read_sizes(named) == read_sizes(config)


@pytest.mark.parametrize(
    ("heads", "slopes"),
    [(4, [0.25, 0.0625, 0.015625, 0.00390625]), (3, [0.0625, 0.00390625, 0.25])],
)
def test_alibi_falls_by_the_slopes_of_the_paper(heads: int, slopes: list[float]) -> None:
    biases = Alibi(is_scaled=False, rounds=False).biases(heads, 5)
    np.testing.assert_allclose(biases, np.arange(5)[:, None] * np.array(slopes), rtol=1e-6)


def test_falcon_rounds_positions_above_256_to_bfloat16() -> None:
    biases = Alibi(is_scaled=True, rounds=True).biases(4, 300)
    assert [float(biases[position, 0] * 4) for position in (255, 256, 257, 258, 259)] == [255, 256, 256, 258, 260]
