"""
The log-probabilities of a prompt's own tokens, from a server that completes texts.

There is no one way to ask for them, and some servers answer with numbers that belong to other tokens. So a model is
probed before its first document: the server generates a token, and is then asked for the log-probability of that same
token as the end of a prompt. The two must agree.

    ECHO        the tokens are listed with their log-probabilities (OpenAI's `echo`, vLLM, llama-cpp-python)
    LATE_ECHO   the number listed for a token belongs to the token after it (llama-cpp-python 0.3 for
                models without BOS: `_create_completion` of llama.py takes logits i for token i). The right one is in
                the table of the token before it, if the table holds the whole vocabulary.
    PROMPT      vLLM's `prompt_logprobs`

A BOS that the server puts before the prompt is hidden (llama-cpp-python) or listed (vLLM). Where it is hidden, the
log-probability of the first token is withheld; it is taken from the table of what follows an empty prompt.
"""

import asyncio
import enum
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from jobs.providers import Reason
from worker.providers.http.client import RequestRefused
from worker.providers.openai_api.answers import Completion, LogProbTable, bad_answer
from worker.providers.openai_api.prompt_tokens import TokenPlace, place_tokens
from worker.providers.protocol import ProviderFailure

PROBES = ("The capital of France is", "It will rain in the", "One, two, three,", "Once upon a time there was")
AGREEMENT = 0.1  # nats: a server in half precision computes a prompt and a generated token a little differently
MAX_TABLES = 64  # tables of whole vocabularies that are kept
WHOLE_VOCABULARY = 1 << 20  # entries that are asked for: a table then has all tokens of the model
LONGEST_TOKEN = 256  # characters
LARGEST_VOCABULARY = 8192  # tokens. For LATE_ECHO, where each token of a document comes with a whole table

# Posts a body to /completions and reads the answer; of a streamed answer only the first event.
Complete = Callable[[dict[str, Any]], Awaitable[Completion]]


class Way(enum.StrEnum):
    """How a server tells the log-probabilities of a prompt."""

    ECHO = "echo"
    LATE_ECHO = "late-echo"
    PROMPT = "prompt-logprobs"


class TextDeclined(Exception):
    """The server cannot score this one text; the message says why."""


@dataclass(frozen=True, slots=True)
class PromptScores:
    """The tokens of a text, T each, without a BOS."""

    places: Sequence[TokenPlace]
    log_probs: Sequence[float | None]  # natural log; None: the first token, where nothing stands before it


@dataclass(slots=True)
class PromptScorer:
    """Scores texts with one model of one server, in the way that the probe found."""

    way: Way
    hides_bos: bool
    _tables: dict[str, LogProbTable] = field(default_factory=dict)  # by short prompt: the tokens that may follow it
    _asking: asyncio.Lock = field(default_factory=asyncio.Lock)  # held while a table is asked for

    @classmethod
    async def probe(cls, complete: Complete) -> "PromptScorer":
        """Find out how the server tells log-probabilities. Raises ProviderFailure where it does not, or wrongly."""
        probed = [found for prompt in PROBES if (found := await _probe(complete, prompt)) is not None]
        if not probed:
            raise bad_answer("has no generated token whose log-probability could be compared with that of a prompt")
        # Every prompt has to agree: one number may be near another by chance.
        off_by = {way: max(found.off_by.get(way, math.inf) for found in probed) for way in Way}
        way = min(off_by, key=lambda way: off_by[way])
        if off_by[way] > AGREEMENT:
            raise bad_answer(
                "gives a token another log-probability in a prompt than where it generates it (by "
                f"{off_by[way]:.3g} nats), so its scores cannot be relied on"
            )
        if way is Way.LATE_ECHO:
            await _check_vocabulary(complete)
        scorer = cls(way, probed[0].hides_bos)
        if way is Way.ECHO and scorer.hides_bos:
            # Now, while nothing else is asked: llama-cpp-python cuts an answer that it streams when a request arrives.
            scorer._tables[""] = await _first_tokens(complete)
        return scorer

    async def score(self, text: str, complete: Complete) -> PromptScores:
        """The log-probabilities of a text's tokens. Raises TextDeclined and ProviderFailure."""
        found = await complete(_body(text, self.way))
        tokens, log_probs = self._tokens(found, text)
        places = place_tokens(text, tokens)
        if places is None:
            raise TextDeclined("the tokens that the server lists do not join to the text")
        if self.way is Way.LATE_ECHO:
            if not all(tokens):
                raise TextDeclined("the server does not tell apart the tokens that are parts of a character")
            log_probs = _shifted(found, tokens)
            if len(tokens) > 1:
                log_probs[1] = await self._after(tokens[0], tokens[1], complete)
        elif self.hides_bos and tokens:
            log_probs[0] = await self._after("", tokens[0], complete)
        if any(log_prob is None for log_prob in log_probs[1:]):
            raise bad_answer("withholds the log-probability of a token")
        return PromptScores(places, log_probs)

    def _tokens(self, found: Completion, text: str) -> tuple[list[str], list[float | None]]:
        """The prompt's tokens and what is listed for them, without a BOS and without the generated token."""
        if self.way is Way.PROMPT:
            return _tokens_of_vllm(found, text)
        if found.listed is None:
            raise bad_answer("lists no tokens")
        texts, log_probs = list(found.listed.texts), list(found.listed.log_probs)
        num_prompt = found.usage.prompt - self.hides_bos
        if found.usage.prompt and not 0 <= len(texts) - num_prompt <= 1:
            raise bad_answer(f"lists {len(texts)} tokens and counts {num_prompt} of the prompt")
        if found.usage.prompt:
            texts, log_probs = texts[:num_prompt], log_probs[:num_prompt]
        return texts, log_probs

    async def _after(self, prompt: str, token: str, complete: Complete) -> float:
        """The log-probability of `token` right after a short prompt. Asked once per prompt."""
        async with self._asking:
            table = self._tables.get(prompt)
            if table is None:
                table = self._tables[prompt] = await _table_after(prompt, complete)
                while len(self._tables) > MAX_TABLES:
                    del self._tables[next(iter(self._tables))]
        log_prob = table.get(token) if token else None
        if log_prob is None:
            raise TextDeclined("the server does not tell the log-probability of its first token")
        return log_prob


async def _first_tokens(complete: Complete) -> LogProbTable:
    """The log-probability of every token that may begin a text after a hidden BOS. Raises ProviderFailure."""
    try:
        table = await _table_after("", complete)
    except TextDeclined as why:
        raise _cannot(str(why)) from None
    if not table:
        raise _cannot("it withholds that of the first token")
    return table


async def _table_after(prompt: str, complete: Complete) -> LogProbTable:
    """The log-probability of every token that may follow a short prompt; empty where the server lists none."""
    # llama-cpp-python lists no token of an answer to an empty prompt unless it is streamed.
    asked = {"max_tokens": 2, "min_tokens": 1, "logprobs": WHOLE_VOCABULARY} | ({} if prompt else {"stream": True})
    try:
        found = await complete(_body(prompt, None) | asked)
    except RequestRefused as refused:
        raise TextDeclined(f"the server does not tell what its first token could be ({refused})") from None
    tables = found.listed.tables if found.listed else ()
    return (tables[0] if tables else None) or {}


def _body(prompt: str, way: Way | None) -> dict[str, Any]:
    """Generate one token and drop it: llama-cpp-python takes max_tokens 0 for no limit at all."""
    body: dict[str, Any] = {"prompt": prompt, "max_tokens": 1, "temperature": 0}
    match way:
        case Way.ECHO:
            body |= {"echo": True, "logprobs": 1}
        case Way.LATE_ECHO:
            body |= {"echo": True, "logprobs": WHOLE_VOCABULARY}
        case Way.PROMPT:
            body |= {"prompt_logprobs": 0}
        case None:
            body |= {"logprobs": 1}
    return body


@dataclass(frozen=True, slots=True)
class _Probed:
    """The result of one prompt: how far each way is from the generated token's log-probability, in nats."""

    off_by: dict[Way, float]
    hides_bos: bool


async def _probe(complete: Complete, prompt: str) -> _Probed | None:
    """Generate a token after a prompt, and ask for its log-probability as the end of one; None where the server
    generates nothing that could be found again."""
    try:
        return await _compare(complete, prompt)
    except RequestRefused as refused:
        raise _cannot(str(refused)) from None
    except ProviderFailure as failure:
        # llama-cpp-python that was started with --logits_all false: HTTP 500.
        if failure.reason is Reason.SERVER_ERROR and "logprobs" in str(failure):
            raise _cannot(str(failure)) from None
        raise


async def _compare(complete: Complete, prompt: str) -> _Probed | None:
    """As `_probe`, where the server refuses nothing."""
    generated = (await complete(_body(prompt, None))).listed
    token = generated.texts[0] if generated and generated.texts else ""
    log_prob = generated.log_probs[0] if generated and generated.log_probs else None
    if not token.strip() or log_prob is None:
        return None
    echoed = await complete(_body(prompt + token, Way.ECHO))
    if echoed.listed is None or place_tokens(prompt + token, _prompt_part(echoed, prompt + token)) is None:
        return await _probe_vllm(complete, prompt, token, log_prob)
    texts = _prompt_part(echoed, prompt + token)
    last = len(texts) - 1
    if last < 1 or texts[last] != token:
        return None  # the text was cut into other tokens than it was generated in
    listed, before = echoed.listed.log_probs[last], (echoed.listed.tables[last - 1] or {}).get(token)
    off_by = {Way.ECHO: listed, Way.LATE_ECHO: before}
    return _Probed(
        {way: math.inf if found is None else abs(found - log_prob) for way, found in off_by.items()},
        hides_bos=echoed.usage.prompt == len(texts) + 1,
    )


def _prompt_part(found: Completion, text: str) -> list[str]:
    """The listed tokens that make the text: the generated one at the end is left out."""
    assert found.listed is not None
    texts = list(found.listed.texts)
    return texts if place_tokens(text, texts) is not None else texts[:-1]


async def _probe_vllm(complete: Complete, prompt: str, token: str, log_prob: float) -> _Probed | None:
    found = await complete(_body(prompt + token, Way.PROMPT))
    if found.prompt_log_probs is None:
        raise _cannot("it neither echoes the prompt with log-probabilities nor knows prompt_logprobs")
    texts, log_probs = _tokens_of_vllm(found, prompt + token)
    if place_tokens(prompt + token, texts) is None or texts[-1] != token:
        return None
    last = log_probs[-1]
    return _Probed({Way.PROMPT: math.inf if last is None else abs(last - log_prob)}, hides_bos=False)


def _tokens_of_vllm(found: Completion, text: str) -> tuple[list[str], list[float | None]]:
    """The first entry is null, as nothing stands before that token: a BOS, or without one the first token of the text,
    which is then what the other tokens leave."""
    entries = found.prompt_log_probs
    if not entries:
        raise bad_answer("has no prompt_logprobs")
    if entries[0] is not None:
        raise bad_answer("has prompt_logprobs for a token before which nothing stands")
    rest = [entry for entry in entries[1:] if entry is not None]
    if len(rest) < len(entries) - 1:
        raise bad_answer("withholds the log-probability of a token")
    tokens = [token for token, _ in rest]
    log_probs: list[float | None] = [log_prob for _, log_prob in rest]
    if place_tokens(text, tokens) is None:
        left = (size for size in range(1, LONGEST_TOKEN) if place_tokens(text[size:], tokens) is not None)
        if (size := next(left, None)) is not None:
            return [text[:size], *tokens], [None, *log_probs]
    return tokens, log_probs


async def _check_vocabulary(complete: Complete) -> None:
    """Raise ProviderFailure where a table for each token would be too large."""
    try:
        found = await complete(_body(PROBES[0], None) | {"logprobs": WHOLE_VOCABULARY, "min_tokens": 1})
    except RequestRefused as refused:
        raise _cannot(str(refused)) from None
    table = found.listed.tables[0] if found.listed and found.listed.tables else None
    if table is None or len(table) > LARGEST_VOCABULARY:
        raise ProviderFailure(
            Reason.BAD_ANSWER,
            "the server gives each token of a prompt the log-probability of the next one, as llama-cpp-python does for "
            "models without BOS: serve the model by another server, or as a GGUF with tokenizer.ggml.add_bos_token",
        )


def _shifted(found: Completion, tokens: Sequence[str]) -> list[float | None]:
    """LATE_ECHO: each token's log-probability is in the table of the token before it. Of token 0 there is no table."""
    if found.listed is None or len(found.listed.tables) < len(tokens):
        raise bad_answer("lists no tokens")
    log_probs: list[float | None] = [None] * len(tokens)
    for index in range(2, len(tokens)):
        table = found.listed.tables[index - 1]
        if table is None or tokens[index] not in table:
            raise bad_answer("withholds the log-probability of a token")
        log_probs[index] = table[tokens[index]]
    return log_probs


def _cannot(why: str) -> ProviderFailure:
    return ProviderFailure(Reason.BAD_ANSWER, f"the server does not return log-probabilities of a prompt: {why}")
