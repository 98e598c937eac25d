"""The providers of a job: the engines that may answer it, in order; and what they did for a batch. Plain values that
need only the standard library.

A provider is a kind of engine: onnx (in the worker's process), or a server that answers requests. Its counterpart of a
job's model is the model that it uses in its place.
"""

import enum
import json
import re
from dataclasses import dataclass, replace
from typing import Any, Self

from jobs.errors import SpecError

# Those that run a folder of this machine in the worker's process; each other module of
# `worker.providers.available` asks a server.
ONNX = "onnx"  # graphs
LLAMACPP = "llamacpp"  # GGUF files as they are
NO_PROVIDER = "none"  # in place of a name: no provider answered the document
UNANSWERED = "unanswered"  # the code of a document that failed because no provider answered it

_NAME = re.compile(r"[a-z][a-z0-9_]*")


class Reason(enum.StrEnum):
    """Why a provider did not answer a document: the codes that are stored, which stay as they are."""

    DECLINED = "declined"  # it cannot answer this document, and works; all others are failures of the provider
    OPEN_ERROR = "open-error"  # its model or its library cannot be loaded
    ENGINE_ERROR = "engine-error"  # its model fails, whatever the document
    UNREACHABLE = "unreachable"  # no connection, or none that is safe: DNS, refused, reset, TLS
    TIMEOUT = "timeout"
    SERVER_ERROR = "server-error"  # HTTP 5xx
    NO_MODEL = "no-model"  # the server does not have the model
    NO_ACCESS = "no-access"  # no key, or one that the server refuses
    RATE_LIMIT = "rate-limit"  # HTTP 429, also after the waits that the server asked for
    BAD_ANSWER = "bad-answer"  # an answer that is not what the API promises, or half of one
    NOT_ASKED = "not-asked"  # it failed a moment ago, and is asked again later
    RECOVERED = "recovered"  # of a change, no failure: it answers again


@dataclass(frozen=True, slots=True)
class Choice:
    """One provider of a job."""

    name: str
    model: str | None = None  # its counterpart of the job's model; None: the same name
    revision: str | None = None  # of that model, where it is a folder of this machine: sha256 over its files
    skipped: str | None = None  # why it cannot do the job at all, a sentence; None: it can

    def __str__(self) -> str:
        return self.name if self.model is None else f"{self.name}:{self.model}"


@dataclass(frozen=True, slots=True)
class ProviderOrder:
    """The providers of a job, the first one first. Raises SpecError for none, and for one that is named twice."""

    choices: tuple[Choice, ...] = (Choice(ONNX),)
    fallback: bool = True  # the next one gets the documents that a provider did not answer; else they fail

    def __post_init__(self) -> None:
        if not self.choices:
            raise SpecError(f"no provider is named; name at least one, such as {ONNX}")
        names = [choice.name for choice in self.choices]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise SpecError(f"the provider {twice} is named twice in {self}; name it once")

    def __str__(self) -> str:
        return ",".join(map(str, self.choices))

    @classmethod
    def parse(cls, text: str, *, fallback: bool = True) -> "ProviderOrder":
        """Parse `onnx,openai:gpt-4o-mini`: names in order, each with its counterpart of the model behind a colon, if it
        has another name there. Raises SpecError for anything else. (`worker` knows which providers there are.)"""
        return cls(tuple(_choice(part.strip()) for part in text.split(",") if part.strip()), fallback)

    @property
    def usable(self) -> tuple[Choice, ...]:
        """The providers that can do the job, in order."""
        return tuple(choice for choice in self.choices if choice.skipped is None)

    @property
    def is_default(self) -> bool:
        """Whether onnx alone was asked for, with the job's own model."""
        return str(self) == ONNX

    def identity(self) -> str:
        """What decides results: canonical JSON of everything but the sentences of `skipped`."""
        choices = [(choice.name, choice.model, choice.revision, choice.skipped is None) for choice in self.choices]
        return json.dumps([choices, self.fallback])

    def to_json(self) -> str:
        """The text that `jobs.providers` stores."""
        choices = [
            {
                name: value
                for name in ("name", "model", "revision", "skipped")
                if (value := getattr(choice, name)) is not None
            }
            for choice in self.choices
        ]
        return json.dumps({"order": choices, "fallback": self.fallback}, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | None) -> "ProviderOrder":
        """The order that `to_json` wrote; None, of a job of an older version: onnx alone."""
        if text is None:
            return cls()
        values: dict[str, Any] = json.loads(text)
        return cls(tuple(Choice(**choice) for choice in values["order"]), values["fallback"])


ONNX_ALONE = ProviderOrder()


@dataclass(frozen=True, slots=True)
class Handover:
    """Documents of a batch that a provider did not answer; or, without a document, that it answers again."""

    provider: str
    next_provider: str | None  # that got them; None: no provider was left
    code: Reason
    reason: str  # a sentence
    documents: int
    is_change: bool  # in the lane's last batch of the job, the provider did not fail like this


@dataclass(frozen=True, slots=True)
class Usage:
    """What a provider says that it used for a batch, answers that were thrown away included."""

    provider: str
    requests: int
    prompt_tokens: int
    completion_tokens: int
    cost: float  # in the currency of the price; 0 without a price

    def __add__(self, other: Self) -> Self:
        """The sum of two batches of one provider."""
        return replace(
            self,
            requests=self.requests + other.requests,
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            cost=self.cost + other.cost,
        )


def _choice(text: str) -> Choice:
    name, colon, model = text.partition(":")
    if not _NAME.fullmatch(name):
        raise SpecError(f"{text!r} is not a provider; write names with commas between them: onnx,openai:MODEL")
    if colon and not model.strip():
        raise SpecError(f"{text!r} names no model behind the colon; write {name}:MODEL, or {name} alone")
    return Choice(name, model.strip() or None)
