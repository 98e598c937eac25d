"""Which kind of model a config.json describes."""

import pytest

from worker.graphs.architectures import ARCHITECTURES, architecture_of
from worker.models.model_kind import ModelKind, names_causal, names_cross_encoder

TRANSLATING = ("marian", "m2m_100", "bart", "mbart", "pegasus", "t5", "mt5")


@pytest.mark.parametrize(("named", "model_type"), ARCHITECTURES.items())
def test_an_architecture_is_recognized_by_its_class_name_or_else_by_its_model_type(named, model_type):
    assert architecture_of({"architectures": [named]}) == model_type
    assert architecture_of({"model_type": model_type}) == model_type
    kind = ModelKind.CAUSAL
    if model_type in TRANSLATING:
        kind = ModelKind.TRANSLATION
    if model_type in ("bert", "roberta", "xlm-roberta", "modernbert"):
        kind = ModelKind.CROSS_ENCODER
    assert ModelKind.of_architecture(model_type) is kind
    assert names_causal({"architectures": [named]}) == (kind is ModelKind.CAUSAL)
    assert names_cross_encoder({"architectures": [named]}) == (kind is ModelKind.CROSS_ENCODER)


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"architectures": ["MptForCausalLM"], "model_type": "mpt"},
        {"architectures": ["LlamaForSequenceClassification"], "model_type": "llama"},
        {"architectures": ["LlamaForCausalLM", "MarianMTModel"]},
        {"architectures": "LlamaForCausalLM", "model_type": "llama"},
        {"architectures": [["x"]]},
        {"architectures": None, "model_type": None},
        {"model_type": ["llama"]},
    ],
)
def test_an_unsupported_architecture_has_no_kind(config):
    assert architecture_of(config) is None


@pytest.mark.parametrize(
    ("named", "model_type"),
    [("T5WithLMHeadModel", "t5"), ("T5Model", "t5"), ("BartModel", "bart"), ("MarianModel", "marian")],
)
def test_a_translation_model_is_recognized_by_an_old_name_and_without_its_head(named, model_type):
    """t5-3b and bart-base are published so; transformers takes their embeddings as the head."""
    assert architecture_of({"architectures": [named]}) == model_type


def test_where_class_and_type_disagree_the_type_counts():
    """As AutoModel of transformers has it: mT5's settings have other defaults than T5's."""
    assert architecture_of({"architectures": ["T5ForConditionalGeneration"], "model_type": "mt5"}) == "mt5"
    assert architecture_of({"architectures": ["LlamaForCausalLM"], "model_type": "bert"}) is None


@pytest.mark.parametrize("named", ["T5EncoderModel", "UMT5ForConditionalGeneration", "T5ForSequenceClassification"])
def test_another_network_of_a_family_is_not_taken_for_a_translation_model(named):
    assert architecture_of({"architectures": [named], "model_type": "t5"}) is None


def test_a_language_model_without_native_graphs_is_recognized_as_a_language_model():
    assert names_causal({"architectures": ["XLMWithLMHeadModel"]})
    assert names_causal({"architectures": ["MptForCausalLM"]})
    assert not names_causal({"architectures": ["BartForConditionalGeneration"]})
    assert not names_causal({"architectures": "LlamaForCausalLM"})
