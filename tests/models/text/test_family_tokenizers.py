"""The tokenizers of the seq2seq families besides Marian give the ids and texts of transformers, which
`tests/golden/make_seq2seq_golden.py` recorded; and what those without names of source languages do besides."""

import base64
import json
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from jobs.errors import ModelError, SpecError
from tests.places import GOLDEN
from tests.seq2seq_checkpoints import TOKENIZERS, spm_kind
from worker.text.translation.translation_tokenizer import Seq2SeqTokenizer, open_translation_tokenizer

RECORDED = json.loads((GOLDEN / "seq2seq.json").read_text(encoding="utf-8"))
PLAIN = [kind for kind, (_write, _family, source, target) in TOKENIZERS.items() if source is target is None]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {kind: write(kind, tmp_path_factory.mktemp("tokenizer")) for kind in TOKENIZERS}


def write(kind: str, folder: Path) -> Path:
    write_tokenizer, family, _source, _target = TOKENIZERS[kind]
    write_tokenizer(folder, base64.b64decode(RECORDED["spm"][spm_kind(family)]))
    if (folder / "tokenizer.json").is_file():  # as it was when the ids were recorded
        (folder / "tokenizer.json").write_text(RECORDED["tokenizers"][kind]["tokenizer.json"], encoding="utf-8")
    (folder / "config.json").write_text(json.dumps({"model_type": family}))
    return folder


def opened(folders: dict[str, Path], kind: str) -> tuple[Seq2SeqTokenizer, dict[str, Any]]:
    golden = RECORDED["tokenizers"][kind]
    return open_translation_tokenizer(folders[kind]).for_source(golden["source"] or "en"), golden


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_the_ids_of_a_source_are_those_of_transformers(folders, kind):
    tokenizer, golden = opened(folders, kind)
    for case in golden["encoded"]:
        assert tokenizer.encode(case["text"], golden["target"]) == case["ids"], case["text"]


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_the_ids_of_a_target_are_those_of_transformers(folders, kind):
    tokenizer, golden = opened(folders, kind)
    begin, end = tokenizer.target_prefix(golden["target"]), tokenizer.eos_id
    for case in golden["targets"]:
        ids = [piece.id for piece in tokenizer.cut_target(case["text"])]
        if kind == "mbart-25":  # the last token of transformers' labels, which it feeds first
            begin = (tokenizer.beginning(golden["target"]).start_id,)
        # transformers puts the language of a legacy target last, where a model does not generate it.
        wanted = [*ids, end, *begin] if kind in ("nllb, legacy", "mbart-25") else [*begin, *ids, end]
        assert wanted == case["ids"], case["text"]


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_decoded_text_is_that_of_transformers(folders, kind):
    tokenizer, golden = opened(folders, kind)
    for case in golden["decoded"]:
        assert tokenizer.decode(case["ids"]) == case["text"]


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_every_id_of_a_source_has_its_place_in_the_text_or_none(folders, kind):
    tokenizer, golden = opened(folders, kind)
    text = "Wind über den Bergen"

    spans = tokenizer.source_spans(text, golden["target"])

    assert len(spans) == len(tokenizer.encode(text, golden["target"]))
    places = [span for span in spans if span is not None]
    assert len(spans) - len(places) == len(tokenizer.encode("", golden["target"]))
    assert places[0][0] == 0
    assert places[-1][1] == len(text.encode())
    assert all(left[1] <= right[0] for left, right in pairwise(places))


@pytest.mark.parametrize("kind", PLAIN)
def test_the_places_of_target_pieces_cover_the_text(folders, kind):
    tokenizer, _golden = opened(folders, kind)
    text = "Wind über den Bergen"

    places = [(piece.start, piece.stop) for piece in tokenizer.cut_target(text)]

    assert places[0][0] == 0
    assert places[-1][1] == len(text.encode())
    assert all(left[1] <= right[0] for left, right in pairwise(places))


@pytest.mark.parametrize("kind", PLAIN)
def test_parts_of_a_long_text_have_a_beginning_and_an_end(folders, kind):
    tokenizer, _golden = opened(folders, kind)
    text, surroundings = "rain on the hills and wind " * 4, tokenizer.encode("", None)

    parts = tokenizer.split(text, None, 16)

    assert max(map(len, parts)) <= 16
    assert all([*part[: len(surroundings) - 1], part[-1]] == surroundings for part in parts)
    pieces = [token_id for part in parts for token_id in part[len(surroundings) - 1 : -1]]
    assert pieces == tokenizer.encode(text, None)[len(surroundings) - 1 : -1]
    assert len(tokenizer.shorten(tokenizer.encode(text, None), 9)) == 9
    assert tokenizer.shorten(tokenizer.encode(text, None), 9)[-1] == tokenizer.eos_id
    with pytest.raises(SpecError, match="no piece fits"):
        tokenizer.split(text, None, len(surroundings))


@pytest.mark.parametrize("kind", [kind for kind in PLAIN if kind != "t5"])
def test_a_model_without_languages_takes_none(folders, kind):
    tokenizer, _golden = opened(folders, kind)

    tokenizer.check_language(None)
    with pytest.raises(SpecError, match="'fr'"):
        tokenizer.check_language("fr")
    assert tokenizer.draw(random.Random(0), 5)[-1] == tokenizer.eos_id


def test_the_tokens_of_bart_are_those_of_its_class_where_no_file_names_them(tmp_path):
    folder = write("bart", tmp_path)
    (folder / "tokenizer_config.json").unlink()

    case = RECORDED["tokenizers"]["bart"]["encoded"][0]
    assert open_translation_tokenizer(folder).encode(case["text"], None) == case["ids"]


@pytest.mark.parametrize(
    ("kind", "file", "content", "message"),
    [
        ("pegasus", "spiece.model", "?", "is not a SentencePiece model"),
        ("pegasus", "config.json", '{"model_type": "pegasus", "eos_token_id": 9}', "eos_token_id = 9"),
        ("pegasus", "tokenizer_config.json", '{"sp_model_kwargs": {"alpha": 1}}', "would be cut at random"),
        ("bart", "tokenizer.json", None, "the tokenizer of a BART model is read from it"),
        ("bart", "tokenizer.json", "{}", "is not a valid tokenizer"),
    ],
)
def test_files_that_do_not_fit_are_refused_by_name(tmp_path, kind, file, content, message):
    folder = write(kind, tmp_path)
    (folder / file).unlink() if content is None else (folder / file).write_text(content)

    with pytest.raises(ModelError, match=message):
        open_translation_tokenizer(folder)
