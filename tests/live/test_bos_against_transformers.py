"""Which BOS token is put before a text: that of transformers' tokenizers, not the one in config.json."""

import inspect
import json
from pathlib import Path
from typing import Any

import pytest

transformers = pytest.importorskip("transformers", reason="transformers is not installed (pip install '.[train]')")

from tests.small_tokenizers import metaspace, write
from worker.text.causal_tokenizer import CausalTokenizer
from worker.text.special_tokens import _CLASS_BOS, _MODEL_CLASS

pytestmark = pytest.mark.filterwarnings("default")

WITHOUT_BOS: list[dict[str, Any]] = [
    {"config": {"model_type": "llama", "bos_token_id": 2}},
    {"config": {"model_type": "qwen2", "bos_token_id": 1}},
    {"config": {"model_type": "llama"}, "tokenizer_config": {"tokenizer_class": "PreTrainedTokenizerFast"}},
    {"config": {"model_type": "qwen2"}, "tokenizer_config": {"tokenizer_class": "LlamaTokenizerFast"}},
]


@pytest.mark.parametrize("name", _CLASS_BOS)
def test_a_class_has_the_bos_that_transformers_gives_it(name: str) -> None:
    made = getattr(transformers, f"{name}TokenizerFast")

    assert inspect.signature(made.__init__).parameters["bos_token"].default == _CLASS_BOS[name]


def test_a_model_type_has_the_class_that_transformers_gives_it() -> None:
    mapping = transformers.models.auto.tokenization_auto.TOKENIZER_MAPPING_NAMES

    assert {name: mapping[name][1] for name in _MODEL_CLASS} == {
        name: f"{kind}TokenizerFast" for name, kind in _MODEL_CLASS.items()
    }


@pytest.mark.parametrize("files", WITHOUT_BOS)
def test_without_a_bos_in_the_tokenizer_files_its_class_decides(tmp_path: Path, files: dict[str, Any]) -> None:
    write(tmp_path, metaspace(), **files)

    expected = transformers.AutoTokenizer.from_pretrained(tmp_path).bos_token_id

    assert CausalTokenizer.open(tmp_path).bos_id == expected
    assert json.loads((tmp_path / "config.json").read_text()).get("bos_token_id") != expected or expected is None
