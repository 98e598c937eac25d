"""
A stand-in of an Ollama server, by its documented API (https://docs.ollama.com/api) and the source of Ollama: it
refuses what the real one refuses, with its words. Its models translate by capital letters, and find a document relevant
that has words of the query.

It has no tokenizer: a token is a word with the white space before it.
"""

import math
import re
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.scripted_api import Request, ScriptedApi, says, serving

Body = Mapping[str, Any]
Edit = Callable[[str, dict[str, Any]], Any]  # path and correct answer -> the answer that is sent
MOST_LISTED = 20


@dataclass
class OllamaStandIn:
    """One server. `edit` makes its answers wrong."""

    models: dict[str, tuple[str, ...]] = field(default_factory=lambda: {"m:latest": ("completion",)})
    version: tuple[int, int, int] = (0, 13, 0)
    context: int = 4096
    obeys: bool = True  # `truncate: false` and `shift: false`
    tells_context: bool = True
    says: Callable[[str], str] | None = None  # the answer to a prompt; None: by its document
    likely: Callable[[str], Mapping[str, float]] | None = None  # probabilities of the first token, by the prompt
    thoughts: str = ""
    edit: Edit = lambda _, answer: answer
    loaded: dict[str, Any] = field(default_factory=dict)  # by model: what it was loaded with
    num_loads: int = 0
    chats: list[Body] = field(default_factory=list)

    def __call__(self, request: Request, connection: socket.socket) -> None:
        """A behaviour of `tests.scripted_api`."""
        status, answer = self.answer(request.method, request.path, request.body or {})
        says(self.edit(request.path, answer) if status == 200 else answer, status)(request, connection)

    def answer(self, method: str, path: str, body: Body) -> tuple[int, Any]:
        """The status and the answer."""
        match method, path:
            case "GET", "/api/version":
                return 200, {"version": ".".join(map(str, self.version))}
            case "GET", "/api/ps":
                context = {"context_length": self.context} if self.tells_context else {}
                return 200, {"models": [{"name": name, "model": name} | context for name in self.loaded]}
            case "POST", "/api/show" | "/api/generate" | "/api/chat":
                return self._of_model(path, body)
        return 404, b"404 page not found"

    def _of_model(self, path: str, body: Body) -> tuple[int, Any]:
        name = body["model"] if ":" in body["model"] else f"{body['model']}:latest"
        if name not in self.models:
            return 404, {"error": f"model '{body['model']}' not found"}
        if path == "/api/show":
            return 200, {"capabilities": list(self.models[name]), "details": {}, "model_info": {}}
        if body.get("stream", True) is not False:
            return 200, b'{"done": false}\n{"done": true}\n'
        if not 0 <= body.get("top_logprobs", 0) <= MOST_LISTED:
            return 400, {"error": "top_logprobs must be between 0 and 20"}
        if "completion" not in self.models[name]:
            return 400, {"error": f'"{body["model"]}" does not support {path.rpartition("/")[2]}'}
        if body.get("think") and "thinking" not in self.models[name]:
            return 400, {"error": f'"{body["model"]}" does not support thinking'}
        self._load(name, body)
        head = {"model": body["model"], "created_at": "2025-11-22T00:00:00Z", "done": True}
        if path == "/api/chat":
            return self._answer(head, body, body["messages"][-1]["content"])
        if not body.get("prompt"):
            return 200, head | {"response": "", "done_reason": self._keep(name, body)}
        assert body.get("raw"), "this stand-in has no template"
        return self._answer(head, body, body["prompt"])

    def _load(self, name: str, body: Body) -> None:
        """As the scheduler of Ollama: other values of these load the model again."""
        wanted = (body.get("shift"), body.get("options", {}).get("num_ctx"))
        if self.loaded.get(name) != wanted:
            self.loaded[name] = wanted
            self.num_loads += 1

    def _keep(self, name: str, body: Body) -> str:
        if re.fullmatch(r"0+[a-z]*", body["keep_alive"]):
            del self.loaded[name]
            return "unload"
        return "load"

    def _answer(self, head: Body, body: Body, prompt: str) -> tuple[int, Any]:
        self.chats.append(body)
        num_read = len(prompt.split())
        if num_read > self.context:
            if self.obeys and not body.get("truncate", True):
                return 400, {"error": "the input length exceeds the context length"}
            num_read = self.context
        options = body.get("options", {})
        limit = options.get("num_predict", -1) % (1 << 31)
        if self.obeys and not body.get("shift", True):
            limit = min(limit, max(self.context - num_read, 1))
        likely = (self.likely or likely_answers)(prompt) if is_question(prompt) else {}
        words = [max(likely, key=lambda word: likely[word])] if likely else self._words(prompt)
        words = _until(words, options.get("stop", []))
        told = words[:limit]
        thinking = {"thinking": self.thoughts} if self.thoughts else {}
        message = {"message": {"role": "assistant", "content": "".join(told)} | thinking}
        answer = head | (message if "messages" in body else {"response": "".join(told)} | thinking)
        answer |= {
            "done_reason": "length" if len(words) >= limit else "stop",
            "prompt_eval_count": num_read,
            "eval_count": len(told) + (len(words) < limit),  # the end of the answer counts
        }
        if body.get("logprobs") and self.version >= (0, 12, 11):
            answer["logprobs"] = [self._listed(word, likely, body.get("top_logprobs", 0)) for word in told]
        return 200, answer

    def _words(self, prompt: str) -> list[str]:
        text = prompt.partition("\n\n")[2] or prompt
        return re.findall(r"\s*\S+", self.says(text) if self.says else text.upper())

    def _listed(self, word: str, likely: Mapping[str, float], number: int) -> dict[str, Any]:
        best = sorted(likely.items(), key=lambda found: -found[1])[:number] if likely else [(word, 0.5)][:number]
        top = [_with_bytes(text, probability) for text, probability in best]
        return _with_bytes(word, likely.get(word, 0.5)) | ({"top_logprobs": top} if top else {})


def _until(words: list[str], stops: list[str]) -> list[str]:
    """The words before the first that completes a stop text; what of it stands before that is cut."""
    for number in range(1, len(words) + 1):
        told = "".join(words[:number])
        if found := [told.index(stop) for stop in stops if stop in told]:
            return re.findall(r"\s*\S+", told[: min(found)])
    return words


def is_question(prompt: str) -> bool:
    return "Answer Yes or No" in prompt


def likely_answers(prompt: str) -> dict[str, float]:
    """Yes and No in two spellings: the more words of the query the document has, the likelier Yes."""
    found = re.search(r"Query: (.*)\n\nDocument: (.*)\n\n", prompt, re.DOTALL)
    assert found
    query, document = (set(re.findall(r"\w+", part.lower())) for part in found.groups())
    yes = 0.05 + 0.9 * len(query & document) / len(query)
    return {"Yes": 0.75 * yes, " yes": 0.25 * yes, "No": 0.75 * (1 - yes), "NO": 0.25 * (1 - yes)}


@contextmanager
def ollama(stand_in: OllamaStandIn | None = None) -> Iterator[tuple[OllamaStandIn, ScriptedApi]]:
    """A stand-in that runs at a free port of loopback."""
    server = stand_in or OllamaStandIn()
    with serving(server) as api:
        yield server, api


def _with_bytes(text: str, probability: float) -> dict[str, Any]:
    return {"token": text, "logprob": math.log(probability), "bytes": list(text.encode())}
