"""The settings of sentence-transformers that lie beside a cross-encoder: honoured, or refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from jobs.errors import ModelError
from worker.models.relevance_settings import Activation, RelevanceSettings

IDENTITY, SIGMOID = "torch.nn.modules.linear.Identity", "torch.nn.modules.activation.Sigmoid"
MODULE = {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.base.modules.transformer.Transformer"}


def read(folder: Path, config: dict[str, Any], **files: Any) -> RelevanceSettings:
    contents = {"config": config, **files}
    for name, content in contents.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return RelevanceSettings.read(folder)


@pytest.mark.parametrize(
    ("config", "own", "activation"),
    [
        ({}, {}, Activation.SIGMOID),
        ({"sbert_ce_default_activation_function": "torch.nn.Identity"}, {}, Activation.IDENTITY),
        ({"sentence_transformers": {"activation_fn": IDENTITY}}, {}, Activation.IDENTITY),
        ({"sentence_transformers": {"activation_fn": IDENTITY}}, {"activation_fn": SIGMOID}, Activation.SIGMOID),
        (
            {"sentence_transformers": {"activation_fn": SIGMOID}, "sbert_ce_default_activation_function": IDENTITY},
            {"activation_fn": None},
            Activation.SIGMOID,
        ),
    ],
)
def test_the_activation_is_the_one_that_sentence_transformers_takes(
    tmp_path: Path, config: dict[str, Any], own: dict[str, Any], activation: Activation
) -> None:
    assert read(tmp_path, config, config_sentence_transformers=own).activation is activation


def test_the_length_of_sentence_transformers_counts_where_it_lists_its_modules(tmp_path: Path) -> None:
    assert read(tmp_path, {}, sentence_bert_config={"max_seq_length": 9}).max_length is None
    assert read(tmp_path, {}, sentence_bert_config={"max_seq_length": 9}, modules=[MODULE]).max_length == 9


@pytest.mark.parametrize(
    ("config", "files", "message"),
    [
        (
            {"sbert_ce_default_activation_function": "os.system"},
            {},
            "function os.system; .* no other is run",
        ),
        ({}, {"config_sentence_transformers": {"activation_fn": "my.Code"}}, "activation function my.Code"),
        ({}, {"config_sentence_transformers": {"default_prompt_name": "q"}}, "puts a prompt before each query"),
        ({}, {"modules": [MODULE, {"type": "x.Dense"}]}, r"lists the modules .*Transformer, x.Dense; a cross-encoder"),
        ({}, {"modules": {}}, "holds dict, not a list"),
        ({}, {"modules": [MODULE], "sentence_bert_config": {"do_lower_case": True}}, "has do_lower_case"),
        ({}, {"modules": [MODULE], "sentence_bert_config": {"processing_kwargs": {"text": 1}}}, "processing_kwargs"),
        ({}, {"modules": [MODULE], "sentence_bert_config": {"transformer_task": "x"}}, "has transformer_task 'x'"),
        ({}, {"modules": [MODULE], "sentence_bert_config": {"max_seq_length": "9"}}, "max_seq_length the value '9'"),
    ],
)
def test_what_is_not_supported_is_refused(
    tmp_path: Path, config: dict[str, Any], files: dict[str, Any], message: str
) -> None:
    with pytest.raises(ModelError, match=message):
        read(tmp_path, config, **files)
