"""The tokenizer.json that is built of older files gives the ids of the tokenizer class, or is refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobs.errors import ModelError
from tests.vocabularies import CASES, END, FAIRSEQ, Files, byte_level_files, wordpiece_files, written
from worker.text.causal_tokenizer import CausalTokenizer
from worker.text.conversion.tokenizer_json import build_tokenizer_json
from worker.text.text_pair_tokenizer import TextPairTokenizer
from worker.text.tokenizer_files import UnknownVocabularyError


def converted(folder: Path, files: Files) -> Path:
    """A folder with the files, and the tokenizer.json that is built of them."""
    description = build_tokenizer_json(written(folder, files)).description
    (folder / "tokenizer.json").write_text(json.dumps(description))
    return folder


def pieces_of(tokenizer: CausalTokenizer, text: str) -> list[str]:
    return [tokenizer.piece(token_id) for token_id in tokenizer.encode(text).ids]


@pytest.mark.parametrize("name", CASES)
def test_every_kind_of_folder_gives_a_tokenizer(name, tmp_path):
    """tests/live compares the ids with transformers."""
    tokenizer = CausalTokenizer.open(converted(tmp_path / "model", CASES[name]()))

    assert tokenizer.encode("the rain").ids


@pytest.mark.parametrize(
    ("name", "settings", "pieces"),
    [
        ("GPT2", {}, ["the", "Ġrain", "Ġ12", "345"]),
        ("GPT2", {"add_prefix_space": True}, ["Ġ", "the", "Ġrain", "Ġ12", "345"]),
        ("Qwen2", {}, ["the", "Ġrain", "Ġ", "1", "2", "3", "4", "5"]),
    ],
)
def test_texts_are_cut_as_the_class_cuts_them(name, settings, pieces, tmp_path):
    files = byte_level_files(name, (END,), **settings)
    tokenizer = CausalTokenizer.open(converted(tmp_path / "model", files))

    assert pieces_of(tokenizer, "the rain 12345") == pieces


@pytest.mark.parametrize(
    ("settings", "pieces"),
    [
        ({}, ["the", "rain", "[UNK]", "字"]),
        ({"do_lower_case": False}, ["[UNK]", "rain", "[UNK]", "字"]),
        ({"tokenize_chinese_chars": False}, ["the", "rain", "[UNK]"]),
    ],
)
def test_words_are_cut_as_bert_cuts_them(settings, pieces, tmp_path):
    tokenizer = CausalTokenizer.open(converted(tmp_path / "model", wordpiece_files("Bert", **settings)))

    assert pieces_of(tokenizer, "THE rain ŋ字") == pieces


def test_opts_prompts_begin_with_its_bos(tmp_path):
    tokenizer = CausalTokenizer.open(converted(tmp_path / "opt", CASES["OPT"]()))

    assert tokenizer.bos_id == FAIRSEQ.index("</s>")
    assert tokenizer.encode_prompt("rain") == [tokenizer.bos_id, *tokenizer.encode("rain").ids]


def test_the_pairs_of_roberta_have_its_ends(tmp_path):
    tokenizer = TextPairTokenizer.open(converted(tmp_path / "model", CASES["RoBERTa"]()))

    first, last = FAIRSEQ.index("<s>"), FAIRSEQ.index("</s>")
    assert tokenizer.template.before == (first,)
    assert tokenizer.template.between == (last, last)
    assert tokenizer.template.after == (last,)


def test_a_special_token_that_the_vocabulary_lacks_gets_the_next_id(tmp_path):
    files = byte_level_files("Roberta", FAIRSEQ)
    tokenizer = CausalTokenizer.open(converted(tmp_path / "model", files))

    assert tokenizer.special_ids["<mask>"] == len(files["vocab.json"])


def test_added_tokens_are_found_in_texts_and_special_ones_are_not(tmp_path):
    files = CASES["GPT-2, legacy tokens"]()
    tokenizer = CausalTokenizer.open(converted(tmp_path / "model", files))

    assert files["added_tokens.json"]["tool"] in tokenizer.encode("a tool").ids
    assert not set(tokenizer.special_ids.values()) & {*tokenizer.encode(f"a<a>{END}").ids}


def lines(*added: str, first: str = "#version: 0.2", last: str = "") -> Callable[[Path], object]:
    """A change of merges.txt."""
    return lambda folder: (folder / "merges.txt").write_text("\n".join([first, "a b", *added, last]))


def entries(**changed: Any) -> Callable[[Path], object]:
    """A change of vocab.json."""

    def change(folder: Path) -> None:
        file = folder / "vocab.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | changed))

    return change


def settings(file: str = "tokenizer_config.json", **changed: Any) -> Callable[[Path], object]:
    def change(folder: Path) -> None:
        content = json.loads((folder / file).read_text()) if (folder / file).exists() else {}
        (folder / file).write_text(json.dumps(content | changed))

    return change


def tiny(folder: Path) -> Path:
    """Three pieces and a merge."""
    files = {"vocab.json": {"a": 0, "b": 1, "ab": 2}, "merges.txt": ["#version: 0.2", "a b"]}
    return written(folder, files | {"tokenizer_config.json": {"tokenizer_class": "GPT2Tokenizer"}})


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lines("a b b"), r"merges\.txt, line 3: 'a b b' is not two pieces"),
        (lines(""), r"merges\.txt, line 3: '' is not two pieces"),
        (lines("a c"), r"merges\.txt, line 3: 'a c' needs the piece 'c', which vocab\.json lacks"),
        (lines("b a"), r"merges\.txt, line 3: 'b a' needs the piece 'ba'"),
        (lines("a b"), r"merges\.txt, line 3: 'a b' is there twice"),
        (lambda folder: (folder / "merges.txt").write_bytes(b"#\na \xff\n"), r"merges\.txt is not UTF-8 \(byte 4\)"),
        (entries(c=4), r"vocab\.json has 4 pieces, and none with the id 3"),
        (entries(c=2), r"has 4 pieces, and none with the id 3: download it again"),
        (entries(c="3"), r"vocab\.json gives piece 'c' the id '3', which is no number"),
        (lambda folder: (folder / "vocab.json").write_text("{}"), r"vocab\.json has no pieces"),
        (lambda folder: (folder / "vocab.json").write_bytes(b'{"\xff": 0}'), r"vocab\.json is not JSON"),
        (settings("added_tokens.json", x="9"), r"added_tokens\.json gives tokens ids that are no numbers"),
        (settings("added_tokens.json", x=3, y=3), r"added_tokens\.json gives two tokens the same id"),
        (settings(added_tokens_decoder=[]), r"tokenizer_config\.json has added_tokens_decoder of an unknown form"),
        (settings(added_tokens_decoder={"3": {"lstrip": True}}), r"has an added token of an unknown form"),
        (settings(bos_token={"content": "a"}), r"tokenizer_config\.json names a special token in an unknown form"),
        (
            settings("special_tokens_map.json", pad_token=3),
            r"special_tokens_map\.json names a special token in an unkn",
        ),
        (settings(additional_special_tokens="a"), r"has additional_special_tokens that are no list"),
    ],
)
def test_a_damaged_file_is_refused_with_one_sentence(spoil, message, tmp_path):
    folder = tiny(tmp_path / "model")
    spoil(folder)

    with pytest.raises(ModelError, match=message) as raised:
        build_tokenizer_json(folder)
    assert not isinstance(raised.value, UnknownVocabularyError)
    assert str(folder) in str(raised.value)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["[UNK]", "a", "b", "a"], r"vocab\.txt, line 4: 'a' is there twice"),
        ([], r"vocab\.txt has no pieces"),
        (["a"], r"vocab\.txt lacks '\[UNK\]', which unknown words are replaced by"),
    ],
)
def test_a_damaged_list_of_pieces_is_refused_with_one_sentence(lines, message, tmp_path):
    folder = written(tmp_path / "model", {"vocab.txt": lines, "config.json": {"model_type": "bert"}})

    with pytest.raises(ModelError, match=message):
        build_tokenizer_json(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (settings(tokenizer_class="XLNetTokenizer"), "is for a XLNetTokenizer, and read are those for GPT2, Bart"),
        (settings(tokenizer_class=None), r"says which tokenizer class its vocabulary is for \(tokenizer_class\)"),
        (settings(add_prefix_space="yes"), "add_prefix_space = 'yes', which is neither true nor false"),
        (settings(add_bos_token=True, bos_token=None), "there is no bos_token, which begins or ends texts"),
        (settings(tokenizer_class="Qwen2Tokenizer", add_prefix_space=True), "does not open a Qwen2Tokenizer"),
        (settings(vocab_file="/other/vocab.json"), "says vocab_file = '/other/vocab.json'"),
        (settings(auto_map={"AutoTokenizer": ["code.T", None]}), r"names code of its own \(auto_map\)"),
        (settings(extra_special_tokens={"image_token": "<i>"}), "extra_special_tokens"),
        (settings("added_tokens.json", x=7), "the added token 'x' the id 7, and transformers gives it 3"),
        (
            lambda folder: (folder / "merges.txt").unlink(),
            r"merges\.txt is missing, which a GPT2Tokenizer is read from",
        ),
    ],
)
def test_what_is_not_known_for_certain_is_refused_by_name(change, message, tmp_path):
    folder = tiny(tmp_path / "model")
    change(folder)

    with pytest.raises(UnknownVocabularyError, match=message):
        build_tokenizer_json(folder)


@pytest.mark.parametrize(("name", "kept"), [("GPT2", []), ("Qwen2", [["a", "b"]])])
def test_the_first_line_of_merges_is_a_pair_as_the_class_reads_it(name, kept, tmp_path):
    """GPT-2's class drops the first line whatever it holds, and a last line without an end."""
    folder = tiny(tmp_path / "model")
    settings(tokenizer_class=f"{name}Tokenizer")(folder)
    (folder / "merges.txt").write_text("a b" if name == "Qwen2" else "a b\na b")

    assert build_tokenizer_json(folder).description["model"]["merges"] == kept


def test_windows_line_ends_change_nothing(tmp_path):
    folder = tiny(tmp_path / "model")
    expected = build_tokenizer_json(folder).description
    (folder / "merges.txt").write_bytes(b"#version: 0.2\r\na b\r\n")

    assert build_tokenizer_json(folder).description == expected


def test_the_files_are_named(tmp_path):
    assert build_tokenizer_json(tiny(tmp_path / "model")).files == ("vocab.json", "merges.txt")
