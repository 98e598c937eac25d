"""What an answer of Ollama makes of a document."""

from dataclasses import replace

import pytest

from jobs.answers import Unanswered
from jobs.outcome import Failed, Flag, Outcome, Translation
from jobs.providers import Reason
from worker.providers.ollama_api.answers import ChatReply, GeneratedToken
from worker.providers.ollama_api.outcomes import limit_of, translation_of

LIMIT = 100
TOKENS = [GeneratedToken("Re", -0.5, []), GeneratedToken("gen.", -0.25, [])]
REPLY = ChatReply("Regen.", "", False, 12, 3, TOKENS)


def translated(outcome: Outcome | Unanswered) -> Translation:
    assert isinstance(outcome, Translation)
    return outcome


def test_the_log_probability_is_that_of_the_tokens_that_are_listed() -> None:
    found = translated(translation_of("Rain.\n", REPLY, LIMIT))

    assert (found.text, found.log_prob, found.num_source_tokens, found.num_target_tokens) == ("Regen.\n", -0.75, 12, 2)
    assert found.flags == ()


@pytest.mark.parametrize(
    ("text", "thoughts"),
    [("<think>Rain is Regen.</think>\n\nRegen.", ""), ("Rain is Regen.</think>Regen.", ""), ("Regen.", "Rain …")],
    ids=("block", "block without its first tag", "field"),
)
def test_thoughts_are_no_part_of_a_translation_and_leave_it_without_a_log_probability(text: str, thoughts: str) -> None:
    found = translated(translation_of("Rain.", replace(REPLY, text=text, thoughts=thoughts), LIMIT))

    assert (found.text, found.log_prob, found.num_target_tokens) == ("Regen.", None, 3)
    assert found.flags == (Flag.UNSCORED,)


def test_a_text_about_tags_keeps_them() -> None:
    reply = replace(REPLY, text="Das Tag </think> endet es.", tokens=None)

    assert translated(translation_of("The tag </think> ends it.", reply, LIMIT)).text == "Das Tag </think> endet es."


@pytest.mark.parametrize("text", ["<think>Rain is", "<think>Rain is Regen.</think>", " \n"])
def test_thoughts_alone_are_no_translation_and_no_fault_of_the_document(text: str) -> None:
    reply = replace(REPLY, text=text, thoughts="" if "think" in text else "Rain is", num_completion_tokens=LIMIT)
    found = translation_of("Rain.", replace(reply, reached_limit=True), LIMIT)

    assert found == Unanswered(Reason.DECLINED, "the model thought for 100 tokens and gave no translation")


def test_an_empty_answer_is_a_failed_document() -> None:
    found = translation_of("Rain.", replace(REPLY, text="  ", tokens=None), LIMIT)

    assert isinstance(found, Failed)
    assert found.code == "empty-answer"


def test_an_answer_that_reached_the_limit_is_flagged_and_one_that_filled_the_context_is_declined() -> None:
    at_limit = translation_of("Rain.", replace(REPLY, reached_limit=True, num_completion_tokens=LIMIT), LIMIT)
    no_room = translation_of("Rain.", replace(REPLY, reached_limit=True, num_completion_tokens=LIMIT - 1), LIMIT)

    assert translated(at_limit).flags == (Flag.TRUNCATED,)
    assert isinstance(no_room, Unanswered)
    assert (no_room.code, "not fit" in no_room.reason) == (Reason.DECLINED, True)


def test_log_probabilities_of_another_text_are_not_taken() -> None:
    """A parser of the server may take tokens out of the text. A part of a character cannot be compared."""
    other = [GeneratedToken("<|final|>", -0.1, []), *TOKENS]
    part = [GeneratedToken("Re\ufffd", -0.5, []), GeneratedToken("\ufffd.", -0.25, [])]

    assert translated(translation_of("Rain.", replace(REPLY, tokens=other), LIMIT)).log_prob is None
    assert translated(translation_of("Rain.", replace(REPLY, tokens=part), LIMIT)).log_prob == -0.75


def test_the_limit_is_that_of_the_job_else_grows_with_the_text() -> None:
    assert limit_of("Rain.", 7) == 7
    assert limit_of("Rain.", None) == 512 + 2 * 5
    assert limit_of("雨" * 1000, None) == 512 + 2 * 3000
