"""
What a server answered, read strictly: a field that is missing, of another type or not finite is a `bad-answer`.

Knows: the shapes of the API. Does not know: requests, documents.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jobs.providers import Reason
from worker.providers.openai_api.prompt_tokens import place_tokens
from worker.providers.protocol import ProviderFailure

LogProbTable = dict[str, float]  # log-probability by the text of a token
LEAST_LOG_PROB = -1e6  # far below any of a model's; vLLM writes -9999 for minus infinity


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """The server's own count of an answer's tokens; 0 where it gives none."""

    prompt: int
    completion: int


@dataclass(frozen=True, slots=True)
class ListedTokens:
    """The tokens of a completion with their log-probabilities, natural log. T entries each."""

    texts: Sequence[str]
    log_probs: Sequence[float | None]
    tables: Sequence[LogProbTable | None]  # the most likely tokens at each place


@dataclass(frozen=True, slots=True)
class Completion:
    """The one choice of an answer of /completions."""

    text: str
    usage: TokenUsage
    listed: ListedTokens | None  # None: the server lists no tokens
    prompt_log_probs: Sequence[tuple[str, float] | None] | None  # of vLLM: text and log-probability of each token


@dataclass(frozen=True, slots=True)
class ChatChoice:
    """The one choice of an answer of /chat/completions, or of /completions to a prompt that is to be continued."""

    text: str
    finish_reason: str
    refusal: str | None
    has_thoughts: bool  # in a field of their own
    usage: TokenUsage
    # Of the text's tokens, and of the tokens that end it if the server lists them; None: the server gives none.
    log_probs: Sequence[float] | None
    met_stop: bool | None = None  # whether it ended at a stop text; None: the server does not tell


def bad_answer(what: str) -> ProviderFailure:
    """The error for an answer that breaks the API's promise. `what`: a predicate, such as `has no choices`."""
    return ProviderFailure(Reason.BAD_ANSWER, f"the server's answer {what}")


def read_completion(value: Any) -> Completion:
    """An answer of /completions to one prompt. Raises ProviderFailure."""
    choice = _only_choice(value)
    listed = choice.get("logprobs")
    prompt = choice.get("prompt_logprobs")
    return Completion(
        text=_text(choice, "text"),
        usage=read_usage(value),
        listed=None if listed is None else _listed(listed),
        prompt_log_probs=None if prompt is None else _prompt_log_probs(prompt),
    )


def read_continuation(value: Any, stops: Sequence[str] = ()) -> ChatChoice:
    """An answer of /completions, to a prompt that is not echoed. Raises ProviderFailure."""
    choice = _only_choice(value)
    text = _text(choice, "text")
    return ChatChoice(
        text=text,
        finish_reason=str(choice.get("finish_reason") or ""),
        refusal=None,
        has_thoughts=False,
        usage=read_usage(value),
        log_probs=_generated(choice.get("logprobs"), text, stops),
        met_stop=_met_stop(choice, text, stops),
    )


def read_chat(value: Any, stops: Sequence[str] = ()) -> ChatChoice:
    """An answer of /chat/completions; `stops`: texts that were to end it. Raises ProviderFailure."""
    choice = _only_choice(value)
    message = choice.get("message")
    if not isinstance(message, dict):
        raise bad_answer("has no message")
    content = message.get("content")
    if not isinstance(content, str | None):
        raise bad_answer("has a message that is not a text")
    refusal = message.get("refusal")
    thoughts = message.get("reasoning_content") or message.get("reasoning")
    return ChatChoice(
        text=content or "",
        finish_reason=str(choice.get("finish_reason") or ""),
        refusal=refusal if isinstance(refusal, str) and refusal else None,
        has_thoughts=isinstance(thoughts, str) and bool(thoughts.strip()),
        usage=read_usage(value),
        log_probs=_generated(choice.get("logprobs"), content or "", stops),
        met_stop=_met_stop(choice, content or "", stops),
    )


def read_ranking(value: Any, number: int) -> list[float]:
    """The score of each of `number` documents, in their order, of an answer of /rerank. Raises ProviderFailure."""
    results = value.get("results") if isinstance(value, dict) else None
    if not isinstance(results, list):
        raise bad_answer("has no list of results")
    scores: dict[int, float] = {}
    for result in results:
        index = result.get("index") if isinstance(result, dict) else None
        if type(index) is not int or not 0 <= index < number or index in scores:
            raise bad_answer("ranks a document that was not sent, or one twice")
        score = _number(result.get("relevance_score", result.get("score")))
        if score is None:
            raise bad_answer("has a relevance score that is not a finite number")
        scores[index] = score
    if len(scores) < number:
        raise bad_answer(f"ranks {len(scores)} of {number} documents")
    return [scores[index] for index in range(number)]


def read_model_names(value: Any) -> list[str] | None:
    """The ids of /models; None where the answer has none."""
    models = value.get("data") if isinstance(value, dict) else None
    if not isinstance(models, list):
        return None
    return [model["id"] for model in models if isinstance(model, dict) and isinstance(model.get("id"), str)]


def read_usage(value: Any) -> TokenUsage:
    """The counts of tokens; wrong or missing ones are 0, as they decide nothing but the costs."""
    usage = value.get("usage") if isinstance(value, dict) else None
    counts = usage if isinstance(usage, dict) else {}

    def count(name: str) -> int:
        number = counts.get(name)
        return number if type(number) is int and 0 <= number < 1 << 40 else 0

    return TokenUsage(count("prompt_tokens"), count("completion_tokens"))


def _only_choice(value: Any) -> dict[str, Any]:
    choices = value.get("choices") if isinstance(value, dict) else None
    if not isinstance(choices, list):
        raise bad_answer("has no choices")
    if len(choices) != 1 or not isinstance(choices[0], dict):
        raise bad_answer(f"has {len(choices)} choices where one was asked for")
    return choices[0]


def _text(value: dict[str, Any], name: str) -> str:
    text = value.get(name)
    if not isinstance(text, str):
        raise bad_answer(f"has no {name}")
    return text


def _listed(value: Any) -> ListedTokens | None:
    if not isinstance(value, dict) or not isinstance(value.get("tokens"), list):
        return None  # another form of `logprobs`: of generated tokens alone
    texts, log_probs = value["tokens"], value.get("token_logprobs")
    tables = value.get("top_logprobs")
    if tables is None:
        tables = [None] * len(texts)
    if not (isinstance(log_probs, list) and isinstance(tables, list) and len(texts) == len(log_probs) == len(tables)):
        raise bad_answer("lists tokens and log-probabilities of different numbers")
    if not all(isinstance(text, str) for text in texts):
        raise bad_answer("lists tokens that are not texts")
    return ListedTokens(texts, [_log_prob(log_prob) for log_prob in log_probs], [_table(table) for table in tables])


def _prompt_log_probs(value: Any) -> Sequence[tuple[str, float] | None]:
    """vLLM: for each token of the prompt None, or a map of ids whose first entry is the token itself."""
    if not isinstance(value, list):
        raise bad_answer("has prompt_logprobs that are not a list")
    found: list[tuple[str, float] | None] = []
    for listed in value:
        if listed is None:
            found.append(None)
            continue
        entry = next(iter(listed.values()), None) if isinstance(listed, dict) else None
        log_prob = _log_prob(entry.get("logprob")) if isinstance(entry, dict) else None
        if not isinstance(entry, dict) or log_prob is None:
            raise bad_answer("has an entry of prompt_logprobs without a log-probability")
        found.append((str(entry.get("decoded_token") or ""), log_prob))
    return found


def _met_stop(choice: dict[str, Any], text: str, stops: Sequence[str]) -> bool | None:
    """Whether a stop text ended an answer; None where the server does not tell."""
    for name in ("stop_reason", "matched_stop"):  # vLLM, SGLang: the text, or the id of a token, or null
        if name in choice:
            return choice[name] in stops
    listed = choice.get("logprobs")
    tokens = listed.get("tokens", listed.get("content")) if isinstance(listed, dict) else None
    told = (
        [token.get("token") if isinstance(token, dict) else token for token in tokens]
        if isinstance(tokens, list)
        else []
    )
    texts = [text for text in told if isinstance(text, str)]
    # llama-cpp-python lists the tokens of the stop text, too.
    if len(texts) == len(told) and _text_with_stop(text, texts, stops) is not None:
        return True
    return None if stops else False


def _text_with_stop(text: str, tokens: Sequence[str], stops: Sequence[str]) -> str | None:
    """The text with the stop text after it, where the listed tokens go on into that."""
    spoken = "".join(tokens)
    found = min((start for stop in stops if (start := spoken.find(stop)) >= 0), default=None)
    if found is None or any(stop in text for stop in stops):
        return None
    whole = text + spoken[found:]
    return whole if _join_to(whole, tokens) else None


def _generated(value: Any, text: str, stops: Sequence[str] = ()) -> Sequence[float] | None:
    """The log-probabilities of generated tokens: of chat (`content`), or of completions (`token_logprobs`). None where
    they are not those of the text: of a model that thinks, some servers list the tokens of its thoughts too."""
    if not isinstance(value, dict):
        return None
    content = value.get("content")
    if isinstance(content, list):
        tokens = [token.get("token") if isinstance(token, dict) else None for token in content]
        found = [_log_prob(token.get("logprob")) if isinstance(token, dict) else None for token in content]
        parts = [token.get("bytes") if isinstance(token, dict) else None for token in content]
    elif isinstance(value.get("tokens"), list) and isinstance(value.get("token_logprobs"), list):
        tokens, found, parts = value["tokens"], [_log_prob(log_prob) for log_prob in value["token_logprobs"]], []
    else:
        return None
    known = [log_prob for log_prob in found if log_prob is not None]
    texts = [token for token in tokens if isinstance(token, str)]
    if not known or len(known) < len(found) or len(texts) < len(tokens):
        return None
    # Some servers list the token that ends the answer, whose text is no part of it.
    for stop in (len(texts), len(texts) - 1):
        if _join_to(text, texts[:stop]) or _joined_bytes(parts[:stop]) == text.strip():
            return known
    return None if _text_with_stop(text, texts, stops) is None else known


def _joined_bytes(parts: Sequence[Any]) -> str | None:
    """The text, without space around it, of listed tokens by their bytes, as a token may be part of a character. A
    token without bytes adds nothing; None where none has any."""
    given = [bytes(part) for part in parts if _is_bytes(part)]
    return b"".join(given).decode("utf-8", "replace").strip() if given else None


def _is_bytes(value: Any) -> bool:
    return isinstance(value, list) and all(type(byte) is int and 0 <= byte < 256 for byte in value)


def _join_to(text: str, tokens: Sequence[str]) -> bool:
    return "".join(tokens).strip() == text.strip() or place_tokens(text, tokens) is not None


def _table(value: Any) -> LogProbTable | None:
    if not isinstance(value, dict):
        return None
    return {text: number for text, listed in value.items() if (number := _number(listed)) is not None}


def _log_prob(value: Any) -> float | None:
    """A log-probability; None for null. Raises ProviderFailure for a value that cannot be one."""
    if value is None:
        return None
    number = _number(value)
    if number is None or not LEAST_LOG_PROB <= number <= 1e-3:  # a rounding error above 0 is harmless
        raise bad_answer("has a log-probability that is not a number below 0")
    return number


def _number(value: Any) -> float | None:
    """A finite number; None for anything else."""
    if type(value) not in (int, float) or not math.isfinite(value):
        return None
    return float(value)
