"""The tokenizers of T5 and its kin: prefixes by the target language."""

import json
from pathlib import Path

import pytest

from jobs.errors import ModelError, SpecError
from tests.seq2seq_checkpoints import train_spm, write_t5_tokenizer
from worker.text.translation.translation_tokenizer import Seq2SeqTokenizer, open_translation_tokenizer

TASKS = {
    "summarization": {"prefix": "summarize: "},
    "translation_en_to_de": {"prefix": "translate English to German: "},
    "translation_en_to_fr": {"prefix": "translate English to French: "},
}


def write(folder: Path, family: str, **config: object) -> Seq2SeqTokenizer:
    write_t5_tokenizer(folder, train_spm(family))
    (folder / "config.json").write_text(json.dumps({"model_type": family, "eos_token_id": 1, **config}))
    return open_translation_tokenizer(folder)


@pytest.fixture
def labelled(tmp_path: Path) -> Seq2SeqTokenizer:
    return write(tmp_path, "mt5")


@pytest.fixture
def worded(tmp_path: Path) -> Seq2SeqTokenizer:
    return write(tmp_path, "t5", task_specific_params=TASKS)


def pieces(tokenizer: Seq2SeqTokenizer, ids: list[int]) -> list[str]:
    return [tokenizer.target_piece(token_id) for token_id in ids]


def test_a_piece_of_the_vocabulary_says_the_target_language(labelled: Seq2SeqTokenizer) -> None:
    assert labelled.languages == {"de", "en", "fr", "zh_Hant"}
    assert pieces(labelled, labelled.encode("rain", "deu"))[:3] == ["▁", "<2de>", "▁rain"]
    with pytest.raises(SpecError, match=r"target.* de, en, fr, zh_Hant"):
        labelled.encode("rain", None)
    with pytest.raises(SpecError, match=r"target.* 'xx'"):
        labelled.check_language("xx")


def test_words_of_the_configuration_say_it_and_may_be_left_out(worded: Seq2SeqTokenizer) -> None:
    assert worded.languages == {"de", "fr"}
    assert worded.encode("rain", "de") == worded.encode("translate English to German: rain", None)
    with pytest.raises(SpecError, match=r"source.* 'fr'.* en"):
        worded.for_source("fr").encode("pluie", "de")
    assert worded.for_source("fr").encode("pluie", None) == worded.encode("pluie", None)


def test_a_model_without_prefixes_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"'de'"):
        write(tmp_path, "t5").check_language("de")


@pytest.mark.parametrize("language", ["de", "fr"])
def test_each_part_of_a_long_text_begins_with_the_prefix(worded: Seq2SeqTokenizer, language: str) -> None:
    text = "rain on the hills and wind " * 6
    empty, whole = worded.encode("", language), worded.encode(text, language)

    parts = worded.split(text, language, len(empty) + 12)

    assert len(parts) > 2
    assert max(map(len, parts)) <= len(empty) + 12
    assert all(part[: len(empty) - 1] == empty[:-1] for part in parts)
    assert [token_id for part in parts for token_id in part[len(empty) - 1 : -1]] == whole[len(empty) - 1 : -1]
    with pytest.raises(SpecError, match="no piece fits"):
        worded.split(text, language, len(empty))


def test_a_label_in_a_document_does_not_move_the_prefix(labelled: Seq2SeqTokenizer) -> None:
    ids = labelled.encode("<2fr> rain", "de")

    assert pieces(labelled, ids)[:2] == ["▁", "<2de>"]
    assert all(pieces(labelled, part)[1] == "<2de>" for part in labelled.split("<2fr> rain " * 9, "de", 16))


def test_a_drawn_sentence_has_a_prefix_and_an_end(labelled: Seq2SeqTokenizer) -> None:
    from random import Random

    drawn = labelled.draw(Random(3), 5)

    assert pieces(labelled, drawn)[1].startswith("<2")
    assert (len(drawn), drawn[-1]) == (8, labelled.eos_id)


def test_a_tokenizer_with_more_pieces_than_the_model_is_refused(tmp_path: Path) -> None:
    """As of a model whose embeddings were not resized with its vocabulary: the graph has no row for such an id."""
    with pytest.raises(ModelError, match=r"\d+.* config\.json .* 250"):
        write(tmp_path, "t5", vocab_size=250)


def test_a_tokenizer_that_is_not_legacy_is_taken_where_it_cuts_alike(tmp_path: Path) -> None:
    write(tmp_path, "t5")
    file = tmp_path / "tokenizer_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"legacy": False}))
    assert open_translation_tokenizer(tmp_path).encode("  rain", None)

    (tmp_path / "spiece.model").write_bytes(train_spm("t5", normalization_rule_name="identity"))
    with pytest.raises(ModelError, match=r"legacy.* tokenizer\.json"):
        open_translation_tokenizer(tmp_path)
