"""Which files of a Hugging Face repository are downloaded."""

import pytest

from worker.model_tools.add.hub import wanted

TOKENIZER = ["source.spm", "target.spm", "tokenizer_config.json", "vocab.json"]

CONFIGURATION = ["config.json", "generation_config.json"]


# --- translation models
@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["model.safetensors", "pytorch_model.bin", "a.h5"], ["model.safetensors"]),
        (
            ["model.safetensors.index.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"],
            ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "model.safetensors.index.json"],
        ),
        (
            [
                "pytorch_model.bin.index.json",
                "pytorch_model-00001-of-00001.bin",
                "training_args.bin",
                "flax_model.msgpack",
            ],
            ["pytorch_model-00001-of-00001.bin", "pytorch_model.bin.index.json"],
        ),
        (["pytorch_model.bin", "onnx/encoder_model.onnx", "onnx/decoder_model_merged.onnx"], ["pytorch_model.bin"]),
        (
            [
                "onnx/encoder_model.onnx",
                "onnx/encoder_model_quantized.onnx",
                "onnx/decoder_model_merged.onnx",
                "onnx/decoder_model_merged.onnx_data",
                "onnx/decoder_model.onnx",
            ],
            ["onnx/decoder_model_merged.onnx", "onnx/decoder_model_merged.onnx_data", "onnx/encoder_model.onnx"],
        ),
        (["encoder_model.onnx", "decoder_model.onnx"], ["decoder_model.onnx", "encoder_model.onnx"]),
    ],
)
def test_only_the_best_form_of_a_model_is_downloaded(names, expected):
    beside = [*CONFIGURATION, *TOKENIZER, "README.md"]  # a card says whether one head aligns words
    assert wanted([*names, *beside]) == sorted([*expected, *beside])


def test_a_model_that_kvjobs_made_is_downloaded_whole():
    ours = ["decoder.onnx", "encoder.onnx", "kvjobs.json", "vocab.json", "weights.data"]

    assert wanted([*ours, "README.md"]) == ours


def test_nothing_is_downloaded_from_a_repository_without_a_model():
    assert wanted(["README.md", "config.json", "encoder_model.onnx", *TOKENIZER]) == []


# --- causal language models
CAUSAL_TOKENIZER = ["special_tokens_map.json", "tokenizer.json", "tokenizer_config.json"]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["model.safetensors", "onnx/model.onnx", "model.gguf"], ["model.safetensors"]),
        (
            ["onnx/model.onnx", "onnx/model.onnx_data", "onnx/model_q4.onnx", "onnx/model_fp16.onnx_data"],
            ["onnx/model.onnx", "onnx/model.onnx_data"],
        ),
        (["model.onnx", "model.onnx.data"], ["model.onnx", "model.onnx.data"]),
    ],
)
def test_a_causal_model_is_downloaded_with_its_tokenizer(names, expected):
    beside = [*CONFIGURATION, *CAUSAL_TOKENIZER]

    others = ["vocab.json", "merges.txt", "tokenizer.model", "README.md"]
    assert wanted([*names, *beside, *others]) == sorted([*expected, *beside])


def test_the_tokenizers_of_other_translation_models_are_wanted() -> None:
    m2m100 = ["config.json", "model.safetensors", "sentencepiece.bpe.model", "tokenizer_config.json", "vocab.json"]
    pegasus = ["config.json", "model.safetensors", "spiece.model", "tokenizer_config.json"]

    assert wanted([*m2m100, "README.md", "merges.txt"]) == m2m100
    assert wanted([*pegasus, "README.md"]) == pegasus


def test_a_cross_encoder_is_downloaded_with_the_settings_of_sentence_transformers():
    settings = ["config_sentence_transformers.json", "modules.json", "sentence_bert_config.json"]
    named = ["config.json", "model.safetensors", "special_tokens_map.json", "tokenizer.json", *settings]

    assert wanted([*named, "onnx/model.onnx", "openvino/x.bin", "vocab.txt", "README.md"]) == sorted(named)
