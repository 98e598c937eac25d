"""What a server is asked for a document of a generating job."""

import json

import pytest

from jobs.provider_settings.server_address import OPENAI_URL
from jobs.tasks.generate import GenerateOptions
from worker.providers.openai_api.outcomes import request_of, why_not_continue

ASKED = json.dumps({"messages": [{"role": "system", "content": ""}, {"role": "user", "content": "Rain?"}]})
BEGUN = json.dumps({"messages": [{"role": "user", "content": "Rain?"}, {"role": "assistant", "content": "It"}]})
CHAT = GenerateOptions(chat=True)
OWN = "http://127.0.0.1:8000/v1"


def test_a_server_is_told_to_continue_an_answer_that_has_begun() -> None:
    _, begun, _ = request_of(BEGUN, CHAT)
    _, asked, _ = request_of(ASKED, CHAT)

    assert begun["messages"][-1] == {"role": "assistant", "content": "It"}
    assert (begun["continue_final_message"], begun["add_generation_prompt"]) == (True, False)
    assert not {"continue_final_message", "add_generation_prompt"} & asked.keys()


@pytest.mark.parametrize(
    ("text", "options", "address", "is_declined"),
    [
        (BEGUN, CHAT, OPENAI_URL, True),
        (ASKED, CHAT, OPENAI_URL, False),
        (BEGUN, CHAT, OWN, False),
        ("a prompt", GenerateOptions(), OPENAI_URL, False),
    ],
)
def test_openai_itself_continues_no_answer(
    text: str, options: GenerateOptions, address: str, is_declined: bool
) -> None:
    assert (why_not_continue(text, options, address) is not None) == is_declined
