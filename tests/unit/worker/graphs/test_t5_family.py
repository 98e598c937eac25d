"""Which config.json of T5 and its kin a graph is built for, what their tensors are called, and how distances become
buckets."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.errors import ModelError
from worker.graphs.seq2seq.families import read_network
from worker.graphs.seq2seq.network import RelativePositions
from worker.graphs.seq2seq.relative_bias import bias_by_distance
from worker.graphs.seq2seq.tensor_names import name_of, tensor_names

T5 = {"architectures": ["T5ForConditionalGeneration"], "d_model": 16, "num_heads": 2, "d_kv": 8, "d_ff": 24,
      "num_layers": 2}  # fmt: skip
MT5 = T5 | {"architectures": ["MT5ForConditionalGeneration"]}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"d_kv": None}, "needs d_kv, a size of at least 1, and lacks it"),
        ({"num_heads": 0}, "needs num_heads, a size of at least 1, and says num_heads = 0"),
        ({"feed_forward_proj": "tanh"}, "feed_forward_proj = tanh; supported are swish"),
        ({"feed_forward_proj": "gated-tanh"}, "feed_forward_proj = gated-tanh; supported are .*gated-relu"),
        ({"dense_act_fn": "tanh"}, "dense_act_fn = tanh; supported are swish"),
        ({"tie_encoder_decoder": True}, "tie_encoder_decoder = true; only false"),
        ({"num_layers": 10**9}, "asks for 1,000,000,000 layers"),
        ({"relative_attention_num_buckets": 3}, "relative_attention_num_buckets = 3"),
        ({"relative_attention_max_distance": 16}, "relative_attention_max_distance = 16"),
    ],
)
def test_a_setting_that_no_graph_is_built_for_is_refused_by_name(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        read_network(T5 | changes)


def test_the_defaults_are_those_of_the_class() -> None:
    t5, mt5 = read_network(T5), read_network(MT5)

    assert (t5.activation, t5.is_gated, t5.tied_head, t5.head_scale) == ("relu", False, True, 0.25)
    assert (mt5.activation, mt5.is_gated, mt5.tied_head, mt5.head_scale) == ("gelu_new", True, False, 1.0)
    assert (t5.decoder_layers, t5.max_positions) == (2, 512)
    assert read_network(T5 | {"num_decoder_layers": 5, "n_positions": 64}).decoder_layers == 5


def test_what_transformers_derived_of_the_activation_counts_more_than_what_it_was_derived_of() -> None:
    """T5Config reads `dense_act_fn` and `is_gated_act` of config.json last."""
    derived = read_network(T5 | {"feed_forward_proj": "gated-gelu", "dense_act_fn": "silu", "is_gated_act": False})

    assert (derived.activation, derived.is_gated) == ("silu", False)


def test_tensors_have_the_names_of_t5() -> None:
    network = read_network(MT5 | {"num_layers": 1})

    names = {name for name in tensor_names(network) if name.startswith("decoder.block.0.layer.2")}

    assert names == {
        "decoder.block.0.layer.2.layer_norm.weight",
        *(f"decoder.block.0.layer.2.DenseReluDense.{part}.weight" for part in ("wi_0", "wi_1", "wo")),
    }
    assert name_of(network, "encoder.layers.0.final_layer_norm.weight") == "encoder.block.0.layer.1.layer_norm.weight"
    assert name_of(network, "decoder.layer_norm.weight") == "decoder.final_layer_norm.weight"


def test_near_distances_have_a_bucket_each_and_the_two_directions_share_none() -> None:
    buckets = np.arange(32, dtype=np.float32)[:, None]  # each bucket's bias is its number
    positions = RelativePositions(32, 128)

    behind = bias_by_distance(buckets, positions, both_ways=False)[:, 0]
    both = bias_by_distance(buckets, positions, both_ways=True)[:, 0]

    assert behind[:16].tolist() == [*range(16)]
    assert behind[[16, 22, 23, 64, 127, 128]].tolist() == [16, 18, 18, 26, 31, 31]  # as transformers 4.57 has them
    assert both[128 - 7 : 128 + 8].tolist() == [7, 6, 5, 4, 3, 2, 1, 0, 17, 18, 19, 20, 21, 22, 23]
    assert both[[0, 112, 144, 256]].tolist() == [15, 10, 26, 31]


@given(buckets=st.sampled_from([4, 8, 32, 64]), farthest=st.integers(33, 300))
def test_buckets_widen_with_the_distance(buckets: int, farthest: int) -> None:
    numbers = np.arange(buckets, dtype=np.float32)[:, None]

    behind = bias_by_distance(numbers, RelativePositions(buckets, farthest), both_ways=False)[:, 0]

    assert (behind[0], behind[-1]) == (0, buckets - 1)
    assert (np.diff(behind) >= 0).all()
