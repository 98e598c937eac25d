"""The ids of the target of a term, by tokenizers of several families."""

from types import SimpleNamespace

import numpy as np
import pytest

from jobs.terms.glossary import read_glossary
from jobs.terms.term import Term
from tests.seq2seq_checkpoints import FAMILIES
from worker.engine.tasks.term_phrases import continuing_ids, phrases_of
from worker.text.translation.translation_tokenizer import Seq2SeqTokenizer, open_translation_tokenizer


def term(line: str) -> Term:
    (found,) = read_glossary(f"source\ttarget\tcase\twords\n{line}").terms()
    return found


def phrases(tokenizer: Seq2SeqTokenizer, line: str) -> list[tuple[str, bool]]:
    """The texts of the phrases, and whether they count at the beginning alone."""
    found = phrases_of(term(line), tokenizer, lambda ids: np.ones(len(ids), np.bool_))
    return [("|".join(map(tokenizer.target_piece, phrase.ids)), phrase.is_first) for phrase in found]


@pytest.fixture(scope="module")
def families(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Seq2SeqTokenizer]:
    """SentencePiece, and bytes with a sign for the space before a word."""
    kinds = ("m2m100", "bart")
    return {kind: open_translation_tokenizer(FAMILIES[kind](tmp_path_factory.mktemp(kind))) for kind in kinds}


def test_a_word_stands_behind_a_space_or_at_the_beginning(families: dict[str, Seq2SeqTokenizer]) -> None:
    assert phrases(families["m2m100"], "x\tcold\tsensitive") == [("▁cold", False)]
    assert phrases(families["bart"], "x\tcold\tsensitive") == [("Ġ|co|ld", False), ("co|ld", True)]


def test_a_capital_counts_at_the_beginning_alone(families: dict[str, Seq2SeqTokenizer]) -> None:
    assert phrases(families["m2m100"], "x\tcold") == [("▁cold", False), ("▁|C|o|ld", True)]


def test_a_part_of_a_word_needs_no_space(families: dict[str, Seq2SeqTokenizer]) -> None:
    found = phrases(families["m2m100"], "x\tcold\tsensitive\tpart")

    assert found == [("▁cold", False), ("co|ld", False)]


def test_in_a_script_without_spaces_the_sign_of_a_space_is_at_the_beginning_alone(
    families: dict[str, Seq2SeqTokenizer], demo: SimpleNamespace
) -> None:
    assert phrases(families["m2m100"], "x\t雨が") == [("雨|が", False), ("▁雨|が", True)]
    assert phrases(demo.tokenizer, "x\t周一") == [("周一", False), ("▁周一", True)]


def test_a_form_that_holds_another_is_left_out(demo: SimpleNamespace) -> None:
    assert phrases(demo.tokenizer, "x\t大雨|雨") == [("雨", False)]


def test_a_whole_word_ends_where_no_piece_goes_on_with_it(families: dict[str, Seq2SeqTokenizer]) -> None:
    tokenizer = families["m2m100"]
    ids = continuing_ids(tokenizer)

    (whole,) = phrases_of(term("x\tcold\tsensitive"), tokenizer, lambda ids: np.ones(len(ids), np.bool_))
    part, _ = phrases_of(term("x\tcold\tsensitive\tpart"), tokenizer, lambda ids: np.ones(len(ids), np.bool_))
    piece_of = {text: token for token, text in tokenizer.target_pieces()}

    assert whole.is_whole
    assert not part.is_whole
    assert piece_of["ergen"] in ids
    assert not {piece_of[text] for text in ("▁cold", "▁", "雨", ",")} & set(ids)


def test_what_a_vocabulary_lacks_cannot_be_written(
    families: dict[str, Seq2SeqTokenizer], demo: SimpleNamespace
) -> None:
    assert phrases(families["m2m100"], "x\tϠ") == phrases(demo.tokenizer, "x\tЖ") == []
    has_none = phrases_of(term("x\tcold"), families["bart"], lambda ids: np.zeros(len(ids), np.bool_))
    assert has_none == ()
