"""Which config.json a causal graph is built for."""

from typing import Any

import numpy as np
import pytest

from jobs.errors import ModelError
from tests.causal_checkpoints import causal_config
from worker.graphs.causal.families import read_sizes


def config_of(family: str, **changed: Any) -> dict[str, Any]:
    sizes = {"width": 32, "layers": 2, "heads": 4, "kv_heads": 2, "head_size": None, "ffn": 48, "vocab_size": 300}
    return causal_config(family, **(sizes | {"max_positions": 128, "tied": True} | changed))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"architectures": ["MptForCausalLM"]},
            "MptForCausalLM is not supported; supported are LlamaForCausalLM, Mis",
        ),
        ({"architectures": [], "model_type": "mpt"}, "mpt is not supported"),
        ({"hidden_act": "mish"}, "hidden_act = mish; supported are silu, swish, gelu, "),
        ({"num_hidden_layers": 1 << 30}, "asks for 1,073,741,824 layers; at most 10,000 are supported"),
        (
            {"rope_scaling": {"rope_type": "longrope", "factor": 4.0}},
            "rope_type = longrope; supported are default, linear",
        ),
        ({"rope_scaling": {"type": "mrope", "mrope_section": [1, 2]}}, "rope_type = mrope"),
        ({"rope_scaling": {"rope_type": "linear"}}, r"rope parameters \(linear\) without 'factor'"),
        ({"rope_scaling": {"rope_type": "linear", "factor": 0}}, r"\(linear\) that are invalid: factor = 0"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": -4.0}}, r"\(yarn\) that are invalid: factor = -4.0"),
        ({"rope_scaling": {"rope_type": "dynamic", "factor": "NaN"}}, r"\(dynamic\) that are invalid: factor = NaN"),
        ({"rope_theta": 0}, r"\(default\) that are invalid: rope_theta = 0"),
        ({"rope_theta": float("inf")}, r"\(default\) that are invalid: some frequencies are not positive numbers"),
        ({"rope_parameters": {"full_attention": {"rope_type": "default"}}}, "by types of layers"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor = 0.5; only 1"),
        ({"head_dim": 7}, "heads of size 7"),
        ({"num_key_value_heads": 3}, "4 attention heads, which is not a multiple of its 3 key/value heads"),
        ({"hidden_size": "wide"}, "not a size"),
        ({"use_sliding_window": True, "layer_types": ["chunked_attention"] * 2}, "layer_types other than 2 of"),
    ],
)
def test_a_setting_that_no_graph_is_built_for_is_refused_by_name(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        read_sizes(config_of("qwen2", **changed))


def test_a_config_of_transformers_5_is_read_the_same() -> None:
    scaling = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}
    old = config_of("llama", rope_theta=5e5, rope_scaling=scaling)
    new = config_of("llama", rope_parameters={**scaling, "rope_theta": 5e5})
    del new["rope_theta"]
    assert read_sizes(old) == read_sizes(new)
    assert read_sizes(old).ropes != read_sizes(config_of("llama", rope_scaling=scaling)).ropes


@pytest.mark.parametrize(
    ("family", "changed", "windows"),
    [
        ("mistral", {"sliding_window": 8}, (8, 8)),
        ("mistral", {"sliding_window": 128}, (None, None)),  # as long as the longest sequence
        ("mistral", {"sliding_window": None}, (None, None)),
        ("llama", {"sliding_window": 8}, (None, None)),
        ("qwen2", {"sliding_window": 8}, (None, None)),
        ("qwen2", {"sliding_window": 8, "use_sliding_window": True, "max_window_layers": 1}, (None, 8)),
        (
            "qwen3",
            {
                "sliding_window": 8,
                "use_sliding_window": True,
                "layer_types": ["sliding_attention", "full_attention"],
            },
            (8, None),
        ),
    ],
)
def test_each_layer_has_the_window_that_transformers_gives_it(
    family: str, changed: dict[str, Any], windows: tuple[int | None, ...]
) -> None:
    assert read_sizes(config_of(family, **changed)).windows == windows


def test_rotary_embeddings_equal_the_formula() -> None:
    """cos and sin of position x base^(-2 i / H), at the first and at a late position."""
    rope = read_sizes(config_of("llama", rope_theta=100.0)).ropes[0]
    assert rope is not None
    cosines, sines = rope.rotations(50)
    angles = 49 * 100.0 ** (-np.arange(4) / 4)
    assert np.array_equal(cosines[0], np.ones(4))
    np.testing.assert_allclose(cosines[49], np.cos(angles), atol=1e-5)
    np.testing.assert_allclose(sines[49], np.sin(angles), atol=1e-5)
