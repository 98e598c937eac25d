"""Folders without tokenizer.json: the one that is built, beside the tokenizer that transformers converts."""

import json
from pathlib import Path
from typing import Any

import pytest

transformers = pytest.importorskip("transformers", reason="transformers is not installed (pip install '.[train]')")

from tokenizers import Tokenizer

from tests.vocabularies import CASES, pairs, texts, written
from worker.text.causal_tokenizer import CausalTokenizer
from worker.text.conversion.tokenizer_json import build_tokenizer_json
from worker.text.text_pair_tokenizer import TextPairTokenizer

pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture(params=CASES)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return written(tmp_path / "model", CASES[request.param]())


def test_the_description_is_that_of_transformers(folder: Path) -> None:
    expected = json.loads(transformers.AutoTokenizer.from_pretrained(folder).backend_tokenizer.to_str())
    found = json.loads(Tokenizer.from_str(json.dumps(build_tokenizer_json(folder).description)).to_str())

    assert _deciding(found) == _deciding(expected)


def test_texts_and_pairs_get_the_ids_of_transformers(folder: Path, tmp_path: Path) -> None:
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    (folder / "tokenizer.json").write_text(json.dumps(build_tokenizer_json(folder).description))
    ours, sample = CausalTokenizer.open(folder), texts()

    assert [ours.encode(text).ids for text in sample] == theirs(sample, add_special_tokens=False)["input_ids"]
    processor = json.loads(theirs.backend_tokenizer.to_str())["post_processor"] or {}
    if processor.get("type") == "ByteLevel":  # pairs are put together by their ids alone
        return
    reader = TextPairTokenizer.open(folder)
    for query, document in pairs(sample):
        found = reader.join(reader.encode(query), reader.encode(document), 10**6)
        expected = theirs(query, document)
        assert found.ids == expected["input_ids"]
        assert found.types == expected.get("token_type_ids", [0] * len(found.ids))


def _deciding(description: dict[str, Any]) -> dict[str, Any]:
    """Without what changes no ids."""
    model = description["model"]
    for key in ("continuing_subword_prefix", "end_of_word_suffix"):
        model[key] = model.get(key) or None
    if (description["post_processor"] or {}).get("type") == "ByteLevel":
        description["post_processor"] = None
    return description | {"decoder": None}
