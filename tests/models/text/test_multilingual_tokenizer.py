"""The tokenizers of M2M100, NLLB and mBART-50: languages, and files that are refused."""

import base64
import json
import random
from pathlib import Path
from typing import Any

import pytest

from jobs.errors import ModelError, SpecError
from tests.places import GOLDEN
from tests.seq2seq_checkpoints import TOKENIZERS
from worker.text.translation.multilingual_tokenizer import MultilingualTokenizer, open_multilingual

RECORDED = json.loads((GOLDEN / "seq2seq.json").read_text(encoding="utf-8"))
SPM = base64.b64decode(RECORDED["spm"]["fairseq"])
MULTILINGUAL = [kind for kind, (_write, _family, source, _target) in TOKENIZERS.items() if source is not None]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    found = {}
    for kind in MULTILINGUAL:
        write, family, _source, _target = TOKENIZERS[kind]
        found[kind] = tmp_path_factory.mktemp("tokenizer")
        write(found[kind], SPM)
        (found[kind] / "config.json").write_text(json.dumps({"model_type": family}))
    return found


@pytest.fixture(params=MULTILINGUAL)
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def golden(kind: str) -> dict[str, Any]:
    found: dict[str, Any] = RECORDED["tokenizers"][kind]
    return found


@pytest.fixture
def tokenizer(folders: dict[str, Path], kind: str, golden: dict[str, Any]) -> MultilingualTokenizer:
    return open_multilingual(folders[kind]).for_source(golden["source"])


def test_languages_and_special_tokens_are_dropped_from_decoded_text(tokenizer, golden):
    ids = tokenizer.encode("The rain falls.", golden["target"])

    assert tokenizer.decode([0, 1, *ids, 3]) == "The rain falls."


def test_special_words_in_a_text_are_plain_text(tokenizer, golden):
    ids = tokenizer.encode("</s> __fr__ fra_Latn <pad>", golden["target"])

    surroundings = set(tokenizer.encode("", golden["target"]))
    inner = [token_id for token_id in ids if token_id not in surroundings]
    assert len(ids) == len(inner) + 2
    assert tokenizer.encode("", "fr") == [token_id for token_id in ids if token_id in surroundings]


def test_a_long_text_is_split_into_parts_with_all_that_surrounds_them(tokenizer, golden):
    text = "The rain falls on the hills, and the wind is cold. " * 4
    whole = tokenizer.encode(text, None)

    parts = tokenizer.split(text, None, 20)

    surroundings = tokenizer.encode("", None)
    assert max(map(len, parts)) <= 20
    assert all([token_id for token_id in part if token_id in surroundings] == surroundings for part in parts)
    pieces = [token_id for part in parts for token_id in part if token_id not in surroundings]
    assert pieces == [token_id for token_id in whole if token_id not in surroundings]
    with pytest.raises(SpecError, match="no piece fits"):
        tokenizer.split(text, None, 2)


def test_a_shortened_source_keeps_its_language_and_end(tokenizer):
    ids = tokenizer.encode("The rain falls on the hills.", None)
    surroundings = tokenizer.encode("", None)

    short = tokenizer.shorten(ids, 6)

    assert len(short) == 6
    assert [token_id for token_id in short if token_id in surroundings] == surroundings
    assert tokenizer.shorten(ids, len(ids)) == ids


def test_drawn_sentences_have_a_language_and_an_end(folders, kind):
    drawn = open_multilingual(folders[kind]).draw(random.Random(0), 5)

    assert len(drawn) == 7
    assert 2 in drawn


def test_a_source_needs_a_language(folders, kind):
    with pytest.raises(SpecError, match="source language"):
        open_multilingual(folders[kind]).encode("rain", "fr")


def test_a_target_needs_a_language_unless_the_model_forces_one(folders, tmp_path, kind, golden):
    opened = open_multilingual(folders[kind])
    with pytest.raises(SpecError, match="target language"):
        opened.check_language(None)

    TOKENIZERS[kind][0](tmp_path, SPM)
    beginning = opened.beginning(golden["target"])
    settings = {"forced_bos_token_id": beginning.forced_id, "decoder_start_token_id": beginning.start_id}
    (tmp_path / "generation_config.json").write_text(json.dumps({k: v for k, v in settings.items() if v is not None}))

    assert open_multilingual(tmp_path).beginning(None) == beginning


@pytest.mark.parametrize(
    ("kind", "file", "content", "message"),
    [
        ("m2m100", "vocab.json", "[]", "is not a table of pieces and ids"),
        ("m2m100", "vocab.json", "{}", "has no piece </s>"),
        ("m2m100", "vocab.json", "{", "is not JSON"),
        ("m2m100", "sentencepiece.bpe.model", "?", "is not a SentencePiece model"),
        ("m2m100", "tokenizer_config.json", '{"language_codes": "x"}', "language_codes = 'x'; m2m100 and wmt21"),
        ("nllb", "tokenizer_config.json", '{"sp_model_kwargs": {"alpha": 1}}', "would be cut at random"),
        ("nllb", "tokenizer_config.json", '{"tokenizer_class": "NllbTokenizer"}', "which ids languages have"),
        ("nllb", "config.json", '{"vocab_size": 9}', "but config.json beside it gives a vocabulary of 9"),
        ("nllb", "config.json", '{"eos_token_id": 9}', "eos_token_id = 9"),
        ("nllb", "config.json", '{"model_type": "m2m_100", "pad_token_id": 3}', "has <pad> as 1, .* pad_token_id = 3"),
        (
            "m2m100",
            "config.json",
            '{"model_type": "m2m_100", "pad_token_id": 3}',
            "has <pad> as 1, .* pad_token_id = 3",
        ),
    ],
)
def test_files_that_do_not_fit_are_refused_by_name(tmp_path, kind, file, content, message):
    TOKENIZERS[kind][0](tmp_path, SPM)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": TOKENIZERS[kind][1]}))
    (tmp_path / file).write_text(content)

    with pytest.raises(ModelError, match=message):
        open_multilingual(tmp_path)
