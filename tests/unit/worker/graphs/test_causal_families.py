"""What a config.json of each family says, and what is refused."""

from typing import Any

import numpy as np
import pytest

from jobs.errors import ModelError
from tests.causal_families import FAMILIES, family_config
from worker.graphs.architectures import CAUSAL_ARCHITECTURES, architecture_of, lacks_head
from worker.graphs.causal.alibi import Alibi
from worker.graphs.causal.families import read_sizes
from worker.graphs.causal.weights import tensor_names

NO_WINDOW = "some layers sliding_attention and no window: set sliding_window"
REFUSED = [
    (
        "gpt2",
        {"add_cross_attention": True},
        "add_cross_attention = true, for which no graphs are built: take an ONNX export",
    ),
    ("gpt2", {"activation_function": "mish"}, "activation_function = mish; supported are silu"),
    ("gemma3_text", {"use_bidirectional_attention": True}, "use_bidirectional_attention = true"),
    ("gemma3_text", {"attn_logit_softcapping": 5.0}, "attn_logit_softcapping = 5.0.* transformers leaves it out"),
    ("gemma2", {"query_pre_attn_scalar": 0}, "query_pre_attn_scalar = 0, which has to be above 0"),
    ("gemma2", {"attn_logit_softcapping": "wide"}, "attn_logit_softcapping = 'wide', which is not a number"),
    ("gemma2", {"layer_types": ["full_attention"]}, "layer_types other than 3 of"),
    ("bloom", {"apply_residual_connection_post_layernorm": True}, "apply_residual_connection_post_layernorm = true"),
    (
        "bloom",
        {"slow_but_exact": True, "pretraining_tp": 2},
        "slow_but_exact = true, .* transformers leaves biases out",
    ),
    ("granite", {"vocab_size": None}, "config.json lacks 'vocab_size', or gives it a value that is not a size"),
    (
        "granite",
        {"max_position_embeddings": "many"},
        "lacks 'max_position_embeddings', or gives it a value that is not",
    ),
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
    (
        "granite",
        {"rope_scaling": {"rope_type": "linear", "type": "dynamic", "factor": 2.0}},
        "rope_type = linear and type = dynamic: leave out the one",
    ),
    (
        "smollm3, window",
        {"use_sliding_window": False, "layer_types": ["full_attention", "sliding_attention"]},
        NO_WINDOW,
    ),
    ("smollm3, window", {"sliding_window": None, "layer_types": ["sliding_attention"] * 2}, NO_WINDOW),
    ("phi3", {"sliding_window": 0}, "sliding_window = 0, which has to be above 0"),
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
    ("name", "setting"),
    [
        ("gpt_neox", "use_parallel_residual"),
        ("gpt_neox", "attention_bias"),
        ("gpt2", "scale_attn_weights"),
        ("gpt2", "tie_word_embeddings"),
        ("opt", "enable_bias"),
        ("falcon", "parallel_attn"),
    ],
)
def test_null_switches_a_setting_off_whose_default_is_on(name: str, setting: str) -> None:
    """As in transformers, which has None for it."""
    config = family_config(name)
    assert read_sizes({**config, setting: None}) == read_sizes({**config, setting: False}) != read_sizes(config)


@pytest.mark.parametrize(("family", "default"), [("mistral", 8), ("qwen2", 32), ("qwen3", 32), ("smollm3", 4)])
def test_null_stands_for_as_many_key_heads_as_heads_and_a_missing_number_for_the_default(
    family: str, default: int
) -> None:
    config = family_config("smollm3", num_attention_heads=64, head_dim=8) | {"architectures": [], "model_type": family}
    assert read_sizes({**config, "num_key_value_heads": None}).kv_heads == 64
    assert read_sizes({key: config[key] for key in config if key != "num_key_value_heads"}).kv_heads == default


def test_without_a_window_no_layer_of_qwen_has_one_and_its_first_layer_with_one_may_be_null() -> None:
    config = family_config("smollm3") | {"architectures": [], "model_type": "qwen2", "max_window_layers": None}
    assert not read_sizes(config).has_window
    config |= {"use_sliding_window": True, "max_window_layers": 0, "sliding_window": None}
    assert not read_sizes(config).has_window
    assert read_sizes(config | {"sliding_window": 5}).windows == (5, 5, 5)


def test_each_head_of_stablelm_has_norms_of_its_own_and_those_of_phi_share_one_with_a_bias() -> None:
    sizes = read_sizes(family_config("stablelm, normalized heads"))
    of_heads = {name for name in tensor_names(sizes) if "layers.1.self_attn." in name and "_layernorm." in name}
    queries = {f"model.layers.1.self_attn.q_layernorm.norms.{head}.weight" for head in range(4)}
    keys = {f"model.layers.1.self_attn.k_layernorm.norms.{head}.weight" for head in range(2)}
    assert of_heads == queries | keys
    names_of_phi = tensor_names(read_sizes(family_config("phi, normalized heads")))
    assert {name for name in names_of_phi if "layers.1.self_attn.q_layer" in name} == {
        "model.layers.1.self_attn.q_layernorm.weight",
        "model.layers.1.self_attn.q_layernorm.bias",
    }


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
