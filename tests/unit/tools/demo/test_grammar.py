"""The corpus of the bundled model: the same on every machine, and training never sees the evaluation sentences."""

import re
from random import Random

import pytest
import sentencex

from tests.places import CHECKOUT
from tools.demo.examples import lines
from tools.demo.grammar import Pair, bulletin, is_held_out, training_pairs, unseen_bulletins
from tools.demo.rules import RULES, WORDS

NUMBER = re.compile(r"\d+(?:\.\d+)?")


@pytest.fixture(scope="module")
def pairs() -> list[Pair]:
    return training_pairs(3000, seed=1)


def test_a_seed_always_gives_the_same_corpus(pairs: list[Pair]) -> None:
    assert training_pairs(200, seed=1) == pairs[:200]
    assert training_pairs(200, seed=2) != pairs[:200]
    assert bulletin(Random(7)) == bulletin(Random(7))


@pytest.mark.parametrize(("folder", "documents"), [("examples", 60), ("worker/model_tools", 100)])
def test_a_file_of_bulletins_equals_the_output_of_its_command(folder: str, documents: int) -> None:
    written = (CHECKOUT / folder / "bulletins.jsonl").read_bytes()

    assert written == "".join(lines(documents, seed=1, references=False)).encode()


def test_no_sentence_of_an_example_is_trained_on(pairs: list[Pair]) -> None:
    examples = {pair for document in unseen_bulletins(60, seed=1) for pair in document.sentences}

    assert not examples & set(pairs)
    assert all(is_held_out(pair.english) for pair in examples)
    assert not any(is_held_out(pair.english) for pair in pairs)


def test_every_number_of_the_source_is_in_the_target(pairs: list[Pair]) -> None:
    for english, chinese in pairs:
        assert sorted(NUMBER.findall(english)) == sorted(NUMBER.findall(chinese))


def test_an_english_sentence_has_one_translation() -> None:
    for choices in (*WORDS.values(), *RULES.values()):
        translations: dict[str, str] = {}
        for english, chinese in choices:
            assert translations.setdefault(english, chinese) == chinese


def test_both_sides_of_a_rule_have_the_same_slots() -> None:
    for choices in RULES.values():
        for english, chinese in choices:
            assert set(re.findall(r"\{\w+\}", english)) == set(re.findall(r"\{\w+\}", chinese))


def test_the_sentence_splitter_recovers_the_generated_sentences() -> None:
    for document in unseen_bulletins(60, seed=3):
        for text, paragraph in zip(document.english.split("\n\n"), document.paragraphs, strict=True):
            sentences = [sentence.strip() for sentence in sentencex.segment("en", text)]
            assert sentences == [pair.english for pair in paragraph]


def test_sentences_end_with_the_full_stop_of_their_language_and_titles_without_one(pairs: list[Pair]) -> None:
    for english, chinese in pairs:
        assert english.endswith(".") == chinese.endswith("。")
        assert english[0].isupper() or english[0].isdigit()
        assert not re.search(r"[A-Za-z,;{}]", chinese)


def test_both_texts_of_a_bulletin_have_the_same_paragraphs() -> None:
    for document in unseen_bulletins(20, seed=4):
        assert 1 <= len(document.paragraphs) <= 4
        assert document.english.count("\n\n") == document.chinese.count("\n\n") == len(document.paragraphs) - 1
        assert "".join(pair.chinese for pair in document.sentences) == document.chinese.replace("\n\n", "")
        assert document.station in dict(WORDS["place"])
