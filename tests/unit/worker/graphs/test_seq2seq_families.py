"""Which config.json a Marian graph is built for."""

from typing import Any

import pytest

from jobs.errors import ModelError
from tests.places import GOLDEN
from worker.graphs.seq2seq.families import read_network
from worker.models.json_file import read_json


def config_of(family: str) -> dict[str, Any]:
    return read_json(GOLDEN / family / "config.json")


M2M100 = {"architectures": ["M2M100ForConditionalGeneration"], "model_type": "m2m_100"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"normalize_before": True}, "normalize_before = True; only False"),
        ({"add_final_layer_norm": True}, "add_final_layer_norm"),
        ({"activation_function": "tanh"}, "activation_function = tanh; supported are swish"),
        ({"decoder_attention_heads": 3}, "is not a multiple of its 3 heads"),
        ({"encoder_attention_heads": 0}, "is not a multiple of its 0 heads"),
        ({"d_model": None}, "lacks"),
        ({"tie_encoder_decoder": True}, "tie_encoder_decoder = true; only false"),
        (M2M100 | {"pad_token_id": None}, "pad_token_id = None; positions are counted from this id on"),
        (M2M100 | {"normalize_before": False}, "normalize_before = False; only True"),
        ({"architectures": None, "model_type": "mbart", "add_final_layer_norm": False}, "only True is supported"),
        ({"architectures": None, "model_type": "bart", "static_position_embeddings": True}, "only False"),
    ],
)
def test_a_setting_that_no_graph_is_built_for_is_refused_by_name(changes: dict[str, Any], message: str) -> None:
    config = config_of("tiny-swish-tied")
    assert (config["d_model"], config["decoder_attention_heads"]) == (16, 2)

    with pytest.raises(ModelError, match=message):
        read_network(config | changes)


def test_embeddings_of_their_own_are_a_setting_of_marian_alone() -> None:
    config = config_of("tiny-swish-tied") | {"share_encoder_decoder_embeddings": False}

    assert not read_network(config).shared_embeddings
    assert read_network(config | {"architectures": None, "model_type": "pegasus"}).shared_embeddings


@pytest.mark.parametrize("family", ["m2m_100", "bart", "mbart"])
def test_each_side_has_embeddings_of_its_own_where_the_head_has(family: str) -> None:
    """Their classes tie the embeddings only together with the head, and load each side's from the checkpoint."""
    config = config_of("tiny-swish-tied") | {"architectures": None, "model_type": family}

    assert read_network(config).shared_embeddings
    assert not read_network(config | {"tie_word_embeddings": False}).shared_embeddings
