"""
A stand-in of a server that speaks the API of OpenAI and behaves well, until a test makes it not: completions that echo
their prompt, chat, and /rerank. It scores by the length of tokens, and translates by capital letters.

It has no tokenizer: a token is a word with the white space before it.
"""

import re
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.scripted_api import Request, says

Body = Mapping[str, Any]
Edit = Callable[[str, dict[str, Any]], Any]  # path and correct answer -> the answer that is sent
NEXT, LONGEST = " rain", 3  # the token that it generates, whatever the prompt, and how often


@dataclass(frozen=True)
class OpenAIStandIn:
    """One server. `edit` makes its answers wrong; a prompt with the word `refuses` is longer than its context."""

    models: Sequence[str] = ("m",)
    echoes: bool = True
    reranks: bool = True
    refuses: str | None = None
    edit: Edit = lambda _, answer: answer

    def __call__(self, request: Request, connection: socket.socket) -> None:
        """A behaviour of `tests.scripted_api`."""
        path = request.path.removeprefix("/v1")
        status, answer = self._answer(path, request.body or {})
        says(self.edit(path, answer) if status == 200 else answer, status)(request, connection)

    def _answer(self, path: str, body: Body) -> tuple[int, Any]:
        if path == "/models":
            return 200, {"object": "list", "data": [{"id": name, "object": "model"} for name in self.models]}
        if body.get("model") not in self.models:
            return 404, _error(f"The model `{body.get('model')}` does not exist.")
        if self.refuses and self.refuses in str(body):
            return 400, _error("This model's maximum context length is 16 tokens.")
        match path:
            case "/completions":
                return 200, self._completion(body)
            case "/chat/completions":
                return 200, _chat(body)
            case "/rerank" if self.reranks:
                return 200, _ranking(body)
        return 404, {"detail": "Not Found"}

    def _completion(self, body: Body) -> dict[str, Any]:
        prompt = tokens_of(body["prompt"])
        most = body.get("max_tokens", 1)
        new = [NEXT] * min(most, LONGEST)
        listed = [*prompt, *new] if body.get("echo") and self.echoes else new
        log_probs: list[float | None] = [log_prob_of(token) for token in listed]
        if len(listed) > len(new):
            log_probs[0] = None  # nothing stands before it
        return {
            "object": "text_completion",
            "choices": [
                {
                    "index": 0,
                    "text": "".join(listed),
                    "finish_reason": "stop" if most > LONGEST else "length",
                    "logprobs": {"tokens": listed, "token_logprobs": log_probs, "top_logprobs": None},
                }
            ],
            "usage": {"prompt_tokens": len(prompt), "completion_tokens": len(new)},
        }


def tokens_of(text: str) -> list[str]:
    """They join to the text."""
    return re.findall(r"\s*\S+\s*$|\s*\S+|\s+$", text)


def log_prob_of(token: str) -> float:
    return -0.25 * len(token)


def _chat(body: Body) -> dict[str, Any]:
    prompt = body["messages"][-1]["content"]
    told = (prompt.partition("\n\n")[2] or prompt).upper()
    tokens = tokens_of(told)
    return {
        "object": "chat.completion",
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": told, "refusal": None},
                "logprobs": {"content": [{"token": token, "logprob": log_prob_of(token)} for token in tokens]},
            }
        ],
        "usage": {"prompt_tokens": len(tokens_of(prompt)), "completion_tokens": len(tokens)},
    }


def _ranking(body: Body) -> dict[str, Any]:
    """The more words of the query a document has, the more relevant it is."""
    query = set(body["query"].lower().split())
    shared = [len(query & set(text.lower().split())) / len(query) for text in body["documents"]]
    return {"results": [{"index": index, "relevance_score": score} for index, score in enumerate(shared)]}


def _error(message: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error"}}
