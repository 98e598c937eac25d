"""
A model of an Ollama server: how it is opened, and what is requested.

    open   GET  /api/version    does the server refuse a text that is too long, and list log-probabilities?
           POST /api/show       has it the model?
           POST /api/generate   without a prompt: loads the model
           GET  /api/ps         how long is its context?
    chat   POST /api/chat       messages
           POST /api/generate   a prompt that is to be continued, without a template

Every request has the same `shift`, and none sets `num_ctx`: a server loads a model again for another value of either.

Knows: requests. Does not know: lanes, tasks.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from jobs.answers import Unanswered
from jobs.providers import Reason
from worker.providers.http.client import Exchange, JsonClient, RequestRefused, UsageCount
from worker.providers.http.document_requests import TooLong
from worker.providers.ollama_api.answers import (
    ChatReply,
    Version,
    bad_answer,
    check_loaded,
    read_capabilities,
    read_chat,
    read_context,
    read_continuation,
    read_version,
)
from worker.providers.protocol import ProviderFailure

# Before 0.12.6 a server cuts a long prompt without saying so; `truncate: false` forbids it since.
REFUSES_LONG_TEXTS: Version = (0, 12, 6)
LISTS_LOG_PROBS: Version = (0, 12, 11)
UNRELEASED: Version = (0, 0, 0)  # built from source
WHOLE = {"stream": False, "truncate": False, "shift": False}
GREEDY = {"temperature": 0, "seed": 0}
TOO_LONG = ("context", "too long", "exceed")  # in a server's message about a prompt that is too long, with HTTP 400


class Declined(Exception):
    """The server works, and does not take this prompt; the message is the reason."""

    def unanswered(self, where: str = "") -> Unanswered:
        """The answer for the document. `where`: words before the reason."""
        return Unanswered(Reason.DECLINED, f"{where}{self}")


class PromptTooLong(Declined):
    """The prompt does not fit into the model's context."""

    def unanswered(self, where: str = "") -> Unanswered:
        return TooLong(Reason.DECLINED, f"{where}{self}")


@dataclass(slots=True)
class OllamaModel:
    """One model of one server."""

    client: JsonClient
    name: str
    keep_alive: str
    context: int | None = field(default=None)  # tokens; None: the server does not say

    async def open(self, needed: Version) -> None:
        """Load the model. `needed` is the oldest version of the server that can do it. Raises ProviderFailure."""
        await self._check_version(needed)
        capabilities = read_capabilities(await self._post("/api/show", {}))
        if capabilities is not None and "completion" not in capabilities:
            can = ", ".join(capabilities) or "nothing"
            raise ProviderFailure(Reason.OPEN_ERROR, f"the model {self.name} writes no text; what it can do: {can}")
        check_loaded(await self._post("/api/generate", WHOLE | {"keep_alive": self.keep_alive}), self.name)
        self.context = read_context(await self._get("/api/ps"), self.name)

    async def chat(
        self, prompt: str, exchange: Exchange, usage: UsageCount, *, num_predict: int, num_listed: int = 0
    ) -> ChatReply:
        """Ask for an answer of `num_predict` tokens at most; each token lists the `num_listed` most likely ones.

        Raises ProviderFailure, and Declined for a prompt that the server does not take or has not read as a whole.
        """
        body: dict[str, Any] = {
            "messages": [{"role": "user", "content": prompt}],
            "options": GREEDY | {"num_predict": num_predict},
        }
        if num_listed:
            body["top_logprobs"] = num_listed
        return await self.request("/api/chat", body, exchange, usage)

    async def request(self, path: str, body: Mapping[str, Any], exchange: Exchange, usage: UsageCount) -> ChatReply:
        """The answer of /api/chat or /api/generate. Raises as `chat`."""
        whole = WHOLE | dict(body) | {"keep_alive": self.keep_alive, "think": False, "logprobs": True}
        read = read_chat if path == "/api/chat" else read_continuation
        own = Exchange()
        try:
            reply = read(await self._post(path, whole, own), self.name)
            usage.add(reply.num_prompt_tokens, reply.num_completion_tokens)
            # Only the last attempt was answered.
            own.timings[-1] = replace(own.timings[-1], tokens=reply.num_prompt_tokens + reply.num_completion_tokens)
        finally:
            exchange.timings += own.timings
        self._check_whole(reply)
        return reply

    def _check_whole(self, reply: ChatReply) -> None:
        """Raise Declined where the server has cut the prompt although it was told not to: it read as many tokens as
        the context has, or read and wrote more than that. The last token is written and not read."""
        if self.context is None:
            return
        read, both = reply.num_prompt_tokens, reply.num_prompt_tokens + reply.num_completion_tokens
        if read >= self.context or both > self.context + 1:
            raise PromptTooLong(f"it does not fit into the {self.context} tokens of context with which the model runs")

    async def _check_version(self, needed: Version) -> None:
        try:
            version = read_version(await self._get("/api/version"))
        except RequestRefused as refused:
            raise bad_answer(f"is not that of an Ollama server ({refused} at /api/version)") from None
        if UNRELEASED < version < needed:
            host, found, wanted = self.client.access.host, ".".join(map(str, version)), ".".join(map(str, needed))
            has_truncate = version >= REFUSES_LONG_TEXTS
            lacks = "returns no log-probabilities" if has_truncate else "cuts long texts without saying so"
            raise ProviderFailure(
                Reason.OPEN_ERROR, f"Ollama {found} at {host} {lacks}; this needs version {wanted} or newer"
            )

    async def _get(self, path: str) -> Any:
        return await self.client.get(path, Exchange())

    async def _post(self, path: str, body: dict[str, Any], exchange: Exchange | None = None) -> Any:
        """Raises Declined for a prompt that the server does not take, and ProviderFailure."""
        try:
            return await self.client.post(path, {"model": self.name, **body}, exchange or Exchange())
        except RequestRefused as refused:
            raise self._refusal(refused) from None

    def _refusal(self, refused: RequestRefused) -> ProviderFailure | Declined:
        message = refused.message.lower()
        if refused.status == 404 and "not found" in message and "page" not in message:
            pull = f"the server has no model {self.name}; on its machine: ollama pull {self.name}"
            return ProviderFailure(Reason.NO_MODEL, pull)
        if refused.status in (404, 405):
            return bad_answer(f"is not that of an Ollama server ({refused})")
        if "does not support" in message:
            return ProviderFailure(Reason.OPEN_ERROR, f"the model {self.name} cannot do it ({refused})")
        if refused.status == 413 or any(word in message for word in TOO_LONG):
            return PromptTooLong(f"it is longer than the model's context ({refused})")
        return Declined(f"the server refuses it ({refused})")
