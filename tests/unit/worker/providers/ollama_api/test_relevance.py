"""The score of an answer Yes or No."""

import math
from collections.abc import Mapping

import pytest

from worker.providers.ollama_api.answers import ChatReply, GeneratedToken
from worker.providers.ollama_api.reranking import NoRelevance, prompt_of, score_of


def reply(likely: Mapping[str, float], thoughts: str = "") -> ChatReply:
    """An answer whose first token has these probabilities."""
    listed = [(text, math.log(probability)) for text, probability in likely.items()]
    return ChatReply("Yes", thoughts, True, 30, 1, [GeneratedToken("Yes", -0.1, listed)])


def test_the_score_is_the_log_odds_of_yes_with_its_spellings_summed() -> None:
    likely = {"Yes": 0.4, " yes": 0.1, "YES": 0.05, "No": 0.2, "\tno": 0.02, "Yesterday": 0.1, "Not": 0.1}

    assert score_of(reply(likely)) == pytest.approx(math.log(0.55 / 0.22))


def test_probabilities_too_small_for_a_float_have_a_score() -> None:
    listed = [("Yes", -2000.0), ("yes", -2000.0), ("No", -2001.0)]

    score = score_of(ChatReply("The", "", True, 30, 1, [GeneratedToken("The", -0.0, listed)]))

    assert score == pytest.approx(1.0 + math.log(2))


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (reply({"The": 0.9, "Yesterday": 0.1}), "neither Yes nor No"),
        (reply({"Yes": 0.9, "The": 0.1}), "Yes is among the 20 most likely beginnings of the model's answer and No is"),
        (reply({"No": 0.9, "The": 0.1}), "No is among the 20 most likely beginnings of the model's answer and Yes is"),
        (reply({"Yes": 0.9, "No": 0.1}, "Let me see"), "thinks before it answers"),
        (ChatReply("", "", False, 30, 1, None), "ended its answer before the first word"),
    ],
    ids=("neither", "bound of no", "bound of yes", "thinks", "silent"),
)
def test_what_is_no_score_has_a_reason(answer: ChatReply, says: str) -> None:
    with pytest.raises(NoRelevance, match=says):
        score_of(answer)


def test_texts_with_braces_stay_as_they_are_and_the_query_comes_first() -> None:
    prompt = prompt_of("{document}?", "{query}!")

    assert "Query: {document}?\n\nDocument: {query}!\n\n" in prompt
