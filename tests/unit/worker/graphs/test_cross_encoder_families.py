"""What a config.json says about a cross-encoder, and what is refused."""

from typing import Any

import pytest

from jobs.errors import ModelError
from worker.graphs.cross_encoder.families import read_network
from worker.graphs.cross_encoder.network import Pooling

SIZES = {"hidden_size": 8, "intermediate_size": 16, "num_attention_heads": 2, "num_hidden_layers": 4, "vocab_size": 9}
BERT = {"architectures": ["BertForSequenceClassification"], "id2label": {"0": "LABEL_0"}, **SIZES}
ROBERTA = BERT | {"architectures": ["XLMRobertaForSequenceClassification"], "max_position_embeddings": 514}
MODERN = BERT | {"architectures": ["ModernBertForSequenceClassification"]}


def test_positions_of_roberta_begin_behind_the_padding() -> None:
    network = read_network(ROBERTA | {"pad_token_id": 1})

    assert (network.first_position, network.max_positions) == (2, 512)
    assert (read_network(BERT).first_position, read_network(BERT).max_positions) == (0, 512)


def test_modernbert_alternates_local_and_global_attention() -> None:
    network = read_network(MODERN)

    assert [block.window for block in network.blocks] == [None, 64, 64, None]
    assert [block.theta for block in network.blocks] == [160_000.0, 10_000.0, 10_000.0, 160_000.0]
    assert [block.has_input_norm for block in network.blocks] == [False, True, True, True]
    assert (network.pooling, network.max_positions) == (Pooling.CLS, 8192)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (BERT | {"position_embedding_type": "relative_key"}, "position_embedding_type 'relative_key'; absolute"),
        (BERT | {"is_decoder": True}, "has is_decoder, and a cross-encoder attends to the whole pair"),
        (BERT | {"add_cross_attention": True}, "has add_cross_attention"),
        (BERT | {"pruned_heads": {"0": [1]}}, "has pruned_heads"),
        (BERT | {"hidden_act": "mish"}, "the activation in config.json is 'mish'; supported are gelu, gelu_new"),
        (BERT | {"id2label": {"0": "no", "1": "yes"}}, r"a classifier of 2 classes \(no, yes\), .* num_labels = 1"),
        ({**BERT, "id2label": None}, "a classifier of 2 classes"),  # the default of transformers
        (BERT | {"num_attention_heads": 3}, "3 heads, which do not divide the width 8"),
        (BERT | {"hidden_size": "8"}, "lacks hidden_size, or gives it a value that is not a size"),
        (BERT | {"layer_norm_eps": 0}, "layer_norm_eps a value that is not a positive number"),
        (BERT | {"num_hidden_layers": 100_000}, "100,000 layers; at most 10,000"),
        (MODERN | {"rope_scaling": {"rope_type": "yarn"}}, "has rope_scaling, which is not supported for ModernBERT"),
        (MODERN | {"layer_types": ["full_attention"]}, "has layer_types, .* that transformers 4 has saved"),
        (MODERN | {"classifier_pooling": "max"}, "classifier_pooling 'max'; supported are cls, mean"),
        (MODERN | {"classifier_activation": "elu"}, "the head activation in config.json is 'elu'"),
        (MODERN | {"norm_bias": "no"}, "gives norm_bias the value 'no'; it is true or false"),
        (MODERN | {"num_attention_heads": 8}, "heads of 1, and rotary positions need an even size"),
        (BERT | {"architectures": ["LlamaForCausalLM"]}, "of the architecture llama; cross-encoders are built of bert"),
    ],
)
def test_a_setting_that_would_change_the_result_is_refused(config: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        read_network(config)
