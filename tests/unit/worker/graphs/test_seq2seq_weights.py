"""The tensors of a seq2seq checkpoint by their role."""

import json
from pathlib import Path

import numpy as np
import pytest

from jobs.errors import ModelError
from tests.places import GOLDEN
from worker.graphs.seq2seq.families import read_network
from worker.graphs.seq2seq.weights import Seq2SeqWeights

T5 = {"architectures": ["T5ForConditionalGeneration"], "d_model": 16, "num_heads": 2, "d_kv": 4, "d_ff": 24,
      "num_layers": 1}  # fmt: skip
BLOCK = "encoder.block.0.layer"


@pytest.mark.parametrize(
    ("role", "name", "shape"),
    [
        ("encoder.layers.0.self_attn.q_proj.weight", f"{BLOCK}.0.SelfAttention.q.weight", (8, 16)),
        ("encoder.layers.0.self_attn.out_proj.weight", f"{BLOCK}.0.SelfAttention.o.weight", (16, 8)),
        ("encoder.layers.0.fc1.weight", f"{BLOCK}.1.DenseReluDense.wi.weight", (24, 16)),
        ("encoder.layers.0.fc2.weight", f"{BLOCK}.1.DenseReluDense.wo.weight", (16, 24)),
        ("encoder.layer_norm.weight", "encoder.final_layer_norm.weight", (16,)),
        ("encoder.relative_bias.weight", f"{BLOCK}.0.SelfAttention.relative_attention_bias.weight", (32, 2)),
    ],
)
def test_a_tensor_of_another_shape_than_the_configuration_gives_is_refused(
    role: str, name: str, shape: tuple[int, ...]
) -> None:
    network = read_network(T5)

    assert Seq2SeqWeights({name: np.zeros(shape)}, network, None).one(role).shape == shape
    wrong = np.zeros((shape[0] - 1, *shape[1:]))
    with pytest.raises(ModelError, match=rf"{name} .*config\.json"):
        Seq2SeqWeights({name: wrong}, network, None).one(role)


def test_embeddings_of_another_width_are_refused() -> None:
    with pytest.raises(ModelError, match=r"\(9, 15\).* d_model = 16"):
        Seq2SeqWeights({"shared.weight": np.zeros((9, 15))}, read_network(T5), None).embeddings("encoder")


def test_embeddings_that_each_side_should_have_and_lacks_are_named() -> None:
    """transformers 4.57 saves a BART with a head of its own without them, and draws them at random when it loads it."""
    config = json.loads((Path(GOLDEN) / "tiny-swish-tied" / "config.json").read_text())
    bart = config | {"architectures": None, "model_type": "bart", "tie_word_embeddings": False}

    with pytest.raises(ModelError, match=r"model\.encoder\.embed_tokens\.weight"):
        Seq2SeqWeights({"model.shared.weight": np.zeros((9, 16))}, read_network(bart), None).embeddings("encoder")


def test_saved_sinusoids_are_taken_as_they_are() -> None:
    """A Pegasus in half precision has them rounded to it, and transformers reads those."""
    network = read_network(json.loads((Path(GOLDEN) / "tiny-swish-tied" / "config.json").read_text()))
    computed = Seq2SeqWeights({}, network, None).positions("encoder")
    rounded = computed.astype(np.float16).astype(np.float32)

    saved = Seq2SeqWeights({"model.encoder.embed_positions.weight": rounded}, network, None)

    np.testing.assert_array_equal(saved.positions("encoder"), rounded)
    assert not np.array_equal(saved.positions("decoder"), rounded)
