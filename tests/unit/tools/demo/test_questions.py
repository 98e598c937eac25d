"""Questions about bulletins: each is answered by its bulletin, but worded differently."""

import re
from random import Random

import pytest

from tools.demo.grammar import bulletin
from tools.demo.paraphrases import DAYS, REGIONS, THINGS
from tools.demo.question_frames import KINDS
from tools.demo.questions import Fact, Question, answers, ask, ask_for, facts
from tools.demo.rules import RULES, WORDS

COMMON = {"a", "at", "in", "of", "on", "the", "to"}


@pytest.fixture(scope="module")
def asked() -> list[tuple[str, Question]]:
    rng = Random(3)
    texts = [pair.english for _ in range(300) for pair in bulletin(rng).sentences]
    questions = [(text, ask(rng, text)) for text in texts]
    return [(text, question) for text, question in questions if question]


def test_a_seed_always_gives_the_same_question() -> None:
    text = bulletin(Random(1)).english

    assert ask(Random(5), text) == ask(Random(5), text)
    assert len({str(ask(Random(seed), text)) for seed in range(20)}) > 5


def test_a_bulletin_answers_the_question_drawn_from_it(asked: list[tuple[str, Question]]) -> None:
    assert len(asked) > 500
    assert all(answers(question, text) for text, question in asked)


def test_almost_no_other_bulletin_answers_a_question(asked: list[tuple[str, Question]]) -> None:
    texts = [text for text, _ in asked[:150]]
    others = sum(answers(question, text) for text, question in asked[:150] for text in texts) - len(texts)

    assert others < 0.01 * len(texts) ** 2


def test_questions_cover_every_kind_of_fact(asked: list[tuple[str, Question]]) -> None:
    assert {question.kind for _, question in asked} == set(KINDS)


def test_a_fact_is_what_its_clause_states() -> None:
    text = "Although 31.5 mm of rain will fall near Kelso late on Friday, fog will form in the outer islands on Sunday."

    assert facts(text) == [
        Fact("falls", ("Kelso",), "Friday", "rain", None),
        Fact("murk", ("the outer islands",), "Sunday", "fog", None),
        Fact("rainfall", ("Kelso",), "Friday", None, "31.5 mm"),
    ]
    assert facts("If more than 31.5 mm of rain falls near Kelso on Friday, stay at home.") == []


def test_a_question_is_answered_only_by_a_text_that_states_its_fact() -> None:
    question = Question("Is a deluge in store for Kelso on Friday?", "falls", "Kelso", "Friday", "heavy rain", None)

    assert answers(question, "Heavy rain will fall in Kelso on Friday night.")
    assert not answers(question, "Light rain will fall in Kelso on Friday night.")
    assert not answers(question, "Heavy rain will fall in Kelso on Saturday night.")
    assert not answers(question, "Heavy rain will fall in Upton on Friday night.")
    assert not answers(question, "No heavy rain is expected in Kelso on Friday night.")


def test_numbers_in_questions_are_sometimes_spelled_out() -> None:
    fact = Fact("cools", ("Kelso",), "Monday", None, "minus 31 degrees")
    texts = {question.text for seed in range(200) if (question := ask_for(Random(seed), fact))}

    assert "When does it cool down to minus thirty-one degrees around Kelso?" in texts
    assert "When does it cool down to minus 31 degrees around Kelso?" in texts


def test_synonyms_share_no_word_with_the_name_of_the_phenomenon() -> None:
    for name, others in THINGS.items():
        for other in others:
            assert not {*re.findall(r"\w+", name)} & {*re.findall(r"\w+", other)} - COMMON, (name, other)


def test_everything_that_a_question_frame_can_name_has_a_synonym() -> None:
    for symbol in ("fall", "showers", "haze", "sky", "strength", "system", "warning", "advice"):
        assert {english for english, _ in WORDS[symbol]} <= set(THINGS)
    assert {english for english, _ in WORDS["region"]} == set(REGIONS)
    for english, _ in (*RULES["road"], *RULES["route"]):
        assert english == "{road}" or set(re.findall(r"\w+", english)) & set(THINGS)


def test_a_question_frame_names_a_place_and_at_least_one_more_detail() -> None:
    for kind in KINDS.values():
        for frame in kind.frames:
            slots = re.findall(r"\{(\w+)\}", frame)
            assert "place" in slots
            assert set(slots) & {"day", "thing", "amount"}
            assert frame.endswith("?")
    for phrase in DAYS:
        assert set(re.findall(r"\{(\w+)\}", phrase)) <= {"day", "before", "after"}
