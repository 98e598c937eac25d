"""Every way in which a server of OpenAI's API fails."""

import copy
import json
from collections.abc import Callable
from typing import Any

from jobs.provider_settings.server_address import OPENAI_URL
from jobs.tasks.task import Task
from tests.fallback_table.fault import Fault, from_the_4th
from tests.openai_stand_in import OpenAIStandIn
from tests.scripted_api import cuts, drips, hangs_up, says, stalls

WELL = OpenAIStandIn()
NO_PORT = "http://127.0.0.1:1/v1"  # tcpmux: reserved, and nobody listens there


def at(path: str, change: Callable[[dict[str, Any]], Any], **values: Any) -> OpenAIStandIn:
    """A server whose answers at one path are changed."""

    def edit(asked: str, answer: dict[str, Any]) -> Any:
        return change(copy.deepcopy(answer)) if asked == path else answer

    return OpenAIStandIn(edit=edit, **values)


def of_choice(change: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, Any]], Any]:
    """A change of the only choice of an answer."""

    def changed(answer: dict[str, Any]) -> dict[str, Any]:
        change(answer["choices"][0])
        return answer

    return changed


def of_documents(change: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, Any]], Any]:
    """A change of the only choice, where it is about a document: the server's model was opened before."""

    def changed(choice: dict[str, Any]) -> None:
        if "Monday" in json.dumps(choice):
            change(choice)

    return of_choice(changed)


def without_choices(answer: dict[str, Any]) -> dict[str, Any]:
    return answer | {"choices": []}


def other_tokens(choice: dict[str, Any]) -> None:
    choice["logprobs"]["tokens"] = [token.upper() for token in choice["logprobs"]["tokens"]]


def other_numbers(choice: dict[str, Any]) -> None:
    listed = choice["logprobs"]
    listed["token_logprobs"] = [one and one * len(listed["tokens"]) for one in listed["token_logprobs"]]


def not_a_number(choice: dict[str, Any]) -> None:
    choice["logprobs"]["token_logprobs"][2] = float("nan")


def withheld(choice: dict[str, Any]) -> None:
    choice["logprobs"]["token_logprobs"][2] = None


def above_zero(choice: dict[str, Any]) -> None:
    choice["logprobs"]["token_logprobs"][2] = 0.5


def refusal_of_kelso(choice: dict[str, Any]) -> None:
    if "KELSO" in choice["message"]["content"]:
        choice["message"] |= {"content": None, "refusal": "I cannot help with that."}


def no_answer_to_kelso(choice: dict[str, Any]) -> None:
    if "KELSO" in choice["message"]["content"]:
        choice["message"]["content"] = ""
        choice["finish_reason"] = "content_filter"


def half_of_it(choice: dict[str, Any]) -> None:
    choice["finish_reason"] = None


def empty_for_kelso(choice: dict[str, Any]) -> None:
    if "KELSO" in choice["message"]["content"]:
        choice["message"]["content"] = ""


def without_the_last(answer: dict[str, Any]) -> dict[str, Any]:
    """Of three candidates; of the two of the question that opens it, none is missing."""
    return answer | {"results": answer["results"][:2]}


def half(body: dict[str, Any]) -> bytes:
    content = json.dumps(body).encode()
    return content[: len(content) // 2]


CHOICE = {"choices": [{"index": 0, "text": " rain", "finish_reason": "length", "logprobs": None}]}
MODELS = {"object": "list", "data": [{"id": "m"}]}
MODELS_OF_ANOTHER = {"object": "list", "data": [{"id": "gpt-x"}, {"id": "gpt-y"}]}
OVERLOADED = {"error": {"message": "the model is overloaded"}}
TOO_FAST = {"error": {"message": "too many requests"}}

OPENAI_FAULTS = [
    Fault(what="nothing listens at the address", code="unreachable", settings={"openai_base_url": NO_PORT}),
    Fault(
        what="the host has no address (DNS)",
        code="unreachable",
        settings={"openai_base_url": "https://gpu.invalid/v1"},
    ),
    Fault(
        what="a certificate that nobody has signed",
        code="unreachable",
        settings={"openai_base_url": "https://{host}/v1"},
        tls=True,
        server=[WELL],
    ),
    Fault(
        what="does not speak TLS",
        code="unreachable",
        settings={"openai_base_url": "https://{host}/v1"},
        server=[WELL],
    ),
    Fault(what="closes the connection", code="unreachable", server=[hangs_up]),
    Fault(what="cuts its answer", code="unreachable", server=[cuts(MODELS)]),
    Fault(what="sends nothing (a stall)", code="timeout", server=[stalls]),
    Fault(what="sends a byte from time to time", code="timeout", server=[drips]),
    Fault(what="HTTP 500", code="server-error", server=[says(OVERLOADED, 500)]),
    Fault(what="HTTP 503", code="server-error", server=[says(OVERLOADED, 503)]),
    Fault(what="HTTP 429 without end", code="rate-limit", server=[says(TOO_FAST, 429)]),
    Fault(
        what="HTTP 429, and asks to wait for an hour",
        code="rate-limit",
        server=[says(TOO_FAST, 429, Retry_After="3600")],
    ),
    Fault(what="HTTP 401", code="no-access", server=[says({"error": {"message": "wrong key"}}, 401)]),
    Fault(what="HTTP 403", code="no-access", server=[says({"error": {"message": "not your model"}}, 403)]),
    Fault(
        what="no key is set for OpenAI's own server",
        code="no-access",
        settings={"openai_base_url": OPENAI_URL, "openai_api_key": ""},
    ),
    Fault(what="lists other models", code="no-model", server=[says(MODELS_OF_ANOTHER)]),
    Fault(
        what="HTTP 404, no such model",
        code="no-model",
        server=[says({}, 404), says({"error": {"message": "The model `m` does not exist."}}, 404)],
    ),
    Fault(what="the address has no such API", code="bad-answer", server=[says({"detail": "Not Found"}, 404)]),
    Fault(
        what="the address has no such API",
        code="bad-answer",
        task=Task.TRANSLATE,
        server=[says({"detail": "Not Found"}, 404)],
    ),
    Fault(what="a redirect", code="bad-answer", server=[says(b"", 302, Location="http://elsewhere.invalid/")]),
    Fault(what="answers no JSON", code="bad-answer", server=[says(b"<html>Welcome to nginx!</html>")]),
    Fault(what="half of the JSON", code="bad-answer", server=[says(MODELS), says(half(CHOICE))]),
    Fault(what="HTTP 200 with an error", code="bad-answer", server=[says(MODELS), says(OVERLOADED)]),
    Fault(what="no choices", code="bad-answer", server=[at("/completions", without_choices)]),
    Fault(what="does not echo the prompt", code="bad-answer", server=[OpenAIStandIn(echoes=False)]),
    Fault(
        what="lists the tokens of another text", code="bad-answer", server=[at("/completions", of_choice(other_tokens))]
    ),
    Fault(
        what="another log-probability in a prompt than generated",
        code="bad-answer",
        server=[at("/completions", of_choice(other_numbers))],
    ),
    Fault(
        what="the tokens of no document join to its text",
        code="bad-answer",
        server=[at("/completions", of_documents(other_tokens))],
    ),
    Fault(
        what="a log-probability that is NaN",
        code="bad-answer",
        server=[at("/completions", of_documents(not_a_number))],
    ),
    Fault(
        what="a log-probability above 0",
        code="bad-answer",
        server=[at("/completions", of_documents(above_zero))],
    ),
    Fault(
        what="withholds a log-probability",
        code="bad-answer",
        server=[at("/completions", of_documents(withheld))],
    ),
    Fault(
        what="HTTP 500 from the 4th document on",
        code="server-error",
        answered="openai 3, onnx 5",
        server=[from_the_4th(WELL, says(OVERLOADED, 500))],
    ),
    Fault(
        what="dies at the 4th document",
        code="unreachable",
        answered="openai 3, onnx 5",
        task=Task.TRANSLATE,
        server=[from_the_4th(WELL, hangs_up)],
    ),
    Fault(
        what="HTTP 500 from the 4th query on",
        code="server-error",
        answered="openai 3, onnx 5",
        task=Task.RERANK,
        server=[from_the_4th(WELL, says(OVERLOADED, 500))],
    ),
    Fault(
        what="fails once, batches of 2",
        code="server-error",
        answered="openai 6, onnx 2",
        settings={"openai_attempts": 1},
        per_batch=2,
        server=[says(OVERLOADED, 500), WELL],
    ),
    Fault(
        what="dead, batches of 2",
        code="not-asked, server-error",
        settings={"openai_attempts": 1},
        per_batch=2,
        pause_s=300.0,
        server=[says(OVERLOADED, 500)],
    ),
    Fault(
        what="one document is too long for it",
        code="declined",
        answered="openai 7, onnx 1",
        server=[OpenAIStandIn(refuses="Kelso")],
    ),
    Fault(
        what="one candidate of a query is too long for it",
        code="declined",
        answered="openai 7, onnx 1",
        task=Task.RERANK,
        server=[OpenAIStandIn(refuses="in Fair Isle", reranks=False)],
    ),
    Fault(
        what="leaves candidates out",
        code="bad-answer",
        task=Task.RERANK,
        server=[at("/rerank", without_the_last)],
    ),
    Fault(
        what="has no /rerank, and does not echo",
        code="bad-answer",
        task=Task.RERANK,
        server=[OpenAIStandIn(reranks=False, echoes=False)],
    ),
    Fault(
        what="refuses to translate a document",
        code="refused",
        answered="openai",
        failed=1,
        task=Task.TRANSLATE,
        server=[at("/chat/completions", of_choice(refusal_of_kelso))],
    ),
    Fault(
        what="translates a document by nothing",
        code="empty-answer",
        answered="openai",
        failed=1,
        task=Task.TRANSLATE,
        server=[at("/chat/completions", of_choice(empty_for_kelso))],
    ),
    Fault(
        what="the address has no such API",
        code="bad-answer",
        task=Task.GENERATE,
        server=[says({"detail": "Not Found"}, 404)],
    ),
    Fault(
        what="half an answer (no finish_reason)",
        code="bad-answer",
        task=Task.GENERATE,
        server=[at("/completions", of_choice(half_of_it))],
    ),
    Fault(
        what="dies at the 4th document",
        code="unreachable",
        answered="openai 3, onnx 5",
        task=Task.GENERATE,
        server=[from_the_4th(WELL, hangs_up)],
    ),
    Fault(
        what="one prompt is too long for it",
        code="declined",
        answered="openai 7, onnx 1",
        task=Task.GENERATE,
        server=[OpenAIStandIn(refuses="Kelso")],
    ),
    Fault(
        what="its content filter takes an answer",
        code="refused",
        answered="openai",
        task=Task.GENERATE,
        chat=True,
        order="openai:m",
        failed=1,
        server=[at("/chat/completions", of_choice(no_answer_to_kelso))],
    ),
]
