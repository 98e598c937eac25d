"""
What an Ollama server answered, read strictly: a field that is missing or of another type is a `bad-answer`.

Fields: https://docs.ollama.com/api, and `api/types.go` of Ollama, whose JSON leaves out counts of 0 and empty lists.

Knows: the shapes of the API. Does not know: requests, documents.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jobs.providers import Reason
from worker.providers.protocol import ProviderFailure

Version = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class GeneratedToken:
    """A token of an answer with its log-probability, natural log."""

    text: str
    log_prob: float
    most_likely: Sequence[tuple[str, float]]  # the tokens that were most likely at this place; empty: not asked for


@dataclass(frozen=True, slots=True)
class ChatReply:
    """A whole answer of /api/chat, or of /api/generate to a prompt."""

    text: str
    thoughts: str  # the text that a thinking model wrote before the answer; may be empty
    reached_limit: bool  # it ended at num_predict, or at the end of the context
    num_prompt_tokens: int
    num_completion_tokens: int
    tokens: Sequence[GeneratedToken] | None  # without the one that ends the answer; None: the server lists none


def bad_answer(what: str) -> ProviderFailure:
    """The error for an answer that breaks the API's promise. `what`: a predicate, such as `has no choices`."""
    return ProviderFailure(Reason.BAD_ANSWER, f"the server's answer {what}")


def read_version(value: Any) -> Version:
    """The version of the server, of /api/version. Raises ProviderFailure."""
    text = value.get("version") if isinstance(value, dict) else None
    found = re.match(r"v?(\d{1,6})\.(\d{1,6})\.(\d{1,6})", text) if isinstance(text, str) else None
    if found is None:
        raise bad_answer("names no version of Ollama")
    return int(found[1]), int(found[2]), int(found[3])


def read_capabilities(value: Any) -> Sequence[str] | None:
    """The capabilities of a model, from /api/show; None: the server does not say. Raises ProviderFailure."""
    if not isinstance(value, dict):
        raise bad_answer("describes no model")
    found = value.get("capabilities")
    if not isinstance(found, list):
        return None
    return [name for name in found if isinstance(name, str)]


def read_context(value: Any, model: str) -> int | None:
    """The tokens of context with which a model is loaded, of /api/ps; None: it is not loaded, or the server does not
    say. Raises ProviderFailure."""
    loaded = value.get("models") if isinstance(value, dict) else None
    if not isinstance(loaded, list):
        raise bad_answer("has no list of loaded models")
    for entry in loaded:
        if isinstance(entry, dict) and any(is_same_model(entry.get(name), model) for name in ("model", "name")):
            length = entry.get("context_length")
            return length if type(length) is int and length > 0 else None
    return None


def check_loaded(value: Any, model: str) -> None:
    """Raise ProviderFailure unless an empty /api/generate has loaded the model, or with `keep_alive` 0 unloaded it."""
    answer = _whole(value, model)
    if answer.get("done_reason") not in ("load", "unload"):
        raise bad_answer(f"says done_reason {answer.get('done_reason')!r} where a model was to be loaded")


def read_chat(value: Any, model: str) -> ChatReply:
    """An answer of /api/chat with `stream` false. Raises ProviderFailure."""
    answer = _whole(value, model)
    message = answer.get("message")
    if not isinstance(message, dict) or not isinstance(message.get("content"), str):
        raise bad_answer("has no message with a text")
    return _reply(answer, message["content"], message.get("thinking"))


def read_continuation(value: Any, model: str) -> ChatReply:
    """An answer of /api/generate with `stream` false, to a prompt. Raises ProviderFailure."""
    answer = _whole(value, model)
    if not isinstance(answer.get("response"), str):
        raise bad_answer("has no response that is a text")
    return _reply(answer, answer["response"], answer.get("thinking"))


def _reply(answer: dict[str, Any], text: str, thoughts: Any) -> ChatReply:
    reason = answer.get("done_reason")
    if reason not in ("stop", "length"):
        raise bad_answer(f"says done_reason {reason!r}, neither stop nor length: it may be half an answer")
    if not isinstance(thoughts, str | None):
        raise bad_answer("has a thinking that is not a text")
    return ChatReply(
        text=text,
        thoughts=thoughts or "",
        reached_limit=reason == "length",
        num_prompt_tokens=_count(answer, "prompt_eval_count"),
        num_completion_tokens=_count(answer, "eval_count"),
        tokens=_tokens(answer.get("logprobs")),
    )


def is_same_model(name: Any, model: str) -> bool:
    """Whether two names mean one model: without a tag a name means `:latest`."""
    return isinstance(name, str) and _with_tag(name) == _with_tag(model)


def _with_tag(name: str) -> str:
    lower = name.strip().lower()
    return lower if ":" in lower.rpartition("/")[2] else f"{lower}:latest"


def _whole(value: Any, model: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise bad_answer("is not an object")
    if value.get("done") is not True:
        raise bad_answer("is half an answer: done is not true")
    if not is_same_model(value.get("model"), model):
        raise bad_answer(f"is of the model {str(value.get('model'))[:100]!r}, not of {model!r}")
    return value


def _count(answer: dict[str, Any], name: str) -> int:
    number = answer.get(name, 0)
    if type(number) is not int or not 0 <= number < 1 << 40:
        raise bad_answer(f"has a {name} that is not a number of tokens")
    return number


def _tokens(value: Any) -> Sequence[GeneratedToken] | None:
    if not value:
        return None
    if not isinstance(value, list):
        raise bad_answer("has logprobs that are not a list")
    found = []
    for entry in value:
        most_likely = entry.get("top_logprobs") if isinstance(entry, dict) else None
        if not isinstance(most_likely, list | None):
            raise bad_answer("has top_logprobs that are not a list")
        text, log_prob = _token(entry)
        found.append(GeneratedToken(text, log_prob, [_token(likely) for likely in most_likely or []]))
    return found


def _token(value: Any) -> tuple[str, float]:
    fields: dict[str, Any] = value if isinstance(value, dict) else {}
    text, log_prob = fields.get("token"), fields.get("logprob")
    if not isinstance(text, str):
        raise bad_answer("has a token that is not a text")
    # A rounding error above 0 is harmless.
    if isinstance(log_prob, bool) or not isinstance(log_prob, int | float) or not -math.inf < log_prob <= 1e-3:
        raise bad_answer("has a log-probability that is not a number below 0")
    return text, float(log_prob)
