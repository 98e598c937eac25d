"""The addresses that a request of a batch file may name, what it asks for there, and the tasks that answer it."""

import enum
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from jobs.tasks.task import Task


class Endpoint(enum.StrEnum):
    """The addresses, by the name that OpenAI or vLLM gives each first."""

    CHAT = "/v1/chat/completions"
    COMPLETIONS = "/v1/completions"
    RERANK = "/v1/rerank"
    SCORE = "/v1/score"  # of one text with others


ENDPOINTS: Mapping[str, Endpoint] = {
    **{endpoint.value: endpoint for endpoint in Endpoint},
    "/rerank": Endpoint.RERANK,
    "/v2/rerank": Endpoint.RERANK,
    "/score": Endpoint.SCORE,
}


class RequestKind(enum.StrEnum):
    """What the requests of a batch file ask for. The value is stored with the job."""

    CHAT = "chat"  # an answer to messages
    TRANSLATION = "translation"  # of the last message of a chat
    COMPLETION = "completion"  # of a prompt
    ECHO = "echo"  # the log-probabilities of a prompt
    RERANK = "rerank"
    SCORE = "score"

    @property
    def endpoint(self) -> Endpoint:
        return _ENDPOINTS[self]

    @property
    def task(self) -> Task:
        return _TASKS[self]

    @property
    def is_chat(self) -> bool:
        return self.endpoint is Endpoint.CHAT

    @property
    def generates(self) -> bool:
        """Whether a prompt is continued, so that requests have options of their own."""
        return self.task is Task.GENERATE

    @property
    def options(self) -> Mapping[str, Any]:
        """The options that the job of such requests has where the command does not give them."""
        return _OPTIONS.get(self, {})


_ENDPOINTS = {
    RequestKind.CHAT: Endpoint.CHAT,
    RequestKind.TRANSLATION: Endpoint.CHAT,
    RequestKind.COMPLETION: Endpoint.COMPLETIONS,
    RequestKind.ECHO: Endpoint.COMPLETIONS,
    RequestKind.RERANK: Endpoint.RERANK,
    RequestKind.SCORE: Endpoint.SCORE,
}
_TASKS = {
    RequestKind.CHAT: Task.GENERATE,
    RequestKind.TRANSLATION: Task.TRANSLATE,
    RequestKind.COMPLETION: Task.GENERATE,
    RequestKind.ECHO: Task.SCORE,
    RequestKind.RERANK: Task.RERANK,
    RequestKind.SCORE: Task.RERANK,
}
# The tokens of an answer whose request gives no limit: OpenAI has 16 for completions, and none for a chat; here as many
# as let many prompts run at a time.
_OPTIONS: Mapping[RequestKind, Mapping[str, Any]] = {
    RequestKind.CHAT: {"chat": True, "max_new_tokens": 2_048},
    RequestKind.COMPLETION: {"chat": False, "max_new_tokens": 16},
    RequestKind.ECHO: {"token_scores": True},
}


def kinds_of(endpoint: Endpoint, body: Mapping[str, Any]) -> Sequence[RequestKind]:
    """What a request to this address may ask for; where it is more than one, the model decides."""
    if endpoint is Endpoint.COMPLETIONS:
        return [RequestKind.ECHO if is_echo(body) else RequestKind.COMPLETION]
    return [kind for kind, there in _ENDPOINTS.items() if there is endpoint]


def is_echo(body: Mapping[str, Any]) -> bool:
    """Whether a request asks for its prompt again, with log-probabilities."""
    return body.get("echo") is True


def kind_in(reading: str | None) -> RequestKind | None:
    """What the requests of a job ask for; None: it was made of no batch file. `reading`: as in the job's row."""
    found = orjson.loads(reading).get("requests") if reading else None
    return None if found is None else RequestKind(found)


def kind_like(task: str, options: Mapping[str, Any]) -> RequestKind | None:
    """The kind of requests whose answers are the results of a job that was made of no batch file; None: there is none.
    `options`: as in the job's row."""
    if options.get("pairs"):
        return None
    if options.get("chat"):
        return RequestKind.CHAT
    return next((kind for kind in _LIKE if kind.task == task), None)


_LIKE = (RequestKind.TRANSLATION, RequestKind.COMPLETION, RequestKind.ECHO, RequestKind.RERANK)
