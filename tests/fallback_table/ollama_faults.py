"""Every way in which an Ollama server fails; what any server does wrong is in `openai_faults` too, and is not
repeated."""

import copy
from collections.abc import Callable
from typing import Any

from jobs.tasks.task import Task
from tests.fallback_table.fault import OLLAMA, Fault, from_the_4th
from tests.ollama_stand_in import OllamaStandIn
from tests.scripted_api import Behaviour, hangs_up, says, stalls

WELL = OllamaStandIn()


def fault(what: str, code: str, *server: Behaviour, task: Task = Task.TRANSLATE, **values: Any) -> Fault:
    return Fault(what=what, code=code, order=OLLAMA, task=task, server=server, **values)


def chat(change: Callable[[dict[str, Any]], Any]) -> OllamaStandIn:
    """A server whose chats are changed."""
    return OllamaStandIn(edit=lambda path, answer: change(copy.deepcopy(answer)) if path == "/api/chat" else answer)


def continued(change: Callable[[dict[str, Any]], Any]) -> OllamaStandIn:
    """A server whose continuations are changed."""

    def edit(path: str, answer: dict[str, Any]) -> Any:
        return change(copy.deepcopy(answer)) if answer.get("response") else answer

    return OllamaStandIn(edit=edit)


def says_nothing_of_kelso(text: str) -> str:
    return "" if "Kelso" in text else text.upper()


def longest_of_kelso(text: str) -> str:
    return text.upper() + " RAIN" * 40 if "Kelso" in text else text.upper()


OLLAMA_FAULTS = [
    fault("is to score", "skipped", task=Task.SCORE),
    fault("nothing listens at the address", "unreachable", settings={"ollama_host": "http://127.0.0.1:1"}),
    fault("sends nothing (a stall)", "timeout", stalls),
    fault("its queue is full (HTTP 503)", "server-error", says({"error": "server busy, please try again"}, 503)),
    fault("the model is not there", "no-model", OllamaStandIn(models={})),
    fault("is no Ollama server", "bad-answer", says(b"404 page not found", 404)),
    fault("is too old", "open-error", OllamaStandIn(version=(0, 11, 0))),
    fault("the model makes embeddings", "open-error", OllamaStandIn(models={"m:latest": ("embedding",)})),
    fault("`done` is false", "bad-answer", chat(lambda answer: answer | {"done": False})),
    fault("another model answers", "bad-answer", chat(lambda answer: answer | {"model": "other"})),
    fault("no message", "bad-answer", chat(lambda answer: answer | {"message": None})),
    fault(
        "dies at the 4th document",
        "unreachable",
        from_the_4th(WELL, hangs_up),
        answered="ollama 3, onnx 5",
    ),
    fault(
        "an answer that fills the context",
        "declined",
        OllamaStandIn(context=60, says=longest_of_kelso),
        answered="ollama 7, onnx 1",
    ),
    fault(
        "translates a document by nothing",
        "empty-answer",
        OllamaStandIn(says=says_nothing_of_kelso),
        answered="ollama",
        failed=1,
    ),
    fault(
        "the model thinks before it answers",
        "open-error",
        OllamaStandIn(thoughts="The user asks about rain."),
        task=Task.RERANK,
    ),
    fault(
        "HTTP 500 from the 4th query on",
        "server-error",
        from_the_4th(WELL, says({"error": "llama runner process has terminated"}, 500)),
        task=Task.RERANK,
        answered="ollama 3, onnx 5",
    ),
    fault(
        "`done_reason` is neither stop nor length",
        "bad-answer",
        continued(lambda answer: answer | {"done_reason": "unload"}),
        task=Task.GENERATE,
    ),
    fault("no response", "bad-answer", continued(lambda answer: answer | {"response": None}), task=Task.GENERATE),
    fault(
        "dies at the 4th document",
        "unreachable",
        from_the_4th(WELL, hangs_up),
        task=Task.GENERATE,
        answered="ollama 3, onnx 5",
    ),
    fault(
        "a prompt is longer than the context",
        "declined",
        OllamaStandIn(context=8),
        task=Task.GENERATE,
        answered="ollama 7, onnx 1",
    ),
]
