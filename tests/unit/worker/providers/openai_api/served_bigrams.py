"""A server's completions of a tiny language model: the next character depends on the last one alone."""

import functools
import math
from collections.abc import Coroutine
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeVar

from worker.providers.openai_api.answers import Completion, read_completion

T = TypeVar("T")

ALPHABET = "abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ,."
BOS = "<s>"


@functools.cache
def log_prob(before: str, character: str) -> float:
    """log p(character | before): every character has another probability after every other one."""
    weights = {one: 1 + (7 * ALPHABET.index(one) + 3 * len(before) + sum(map(ord, before))) % 17 for one in ALPHABET}
    return math.log(weights[character] / sum(weights.values()))


def nll_of(text: str, *, bos: bool) -> float:
    """-log p of a text's characters; without a BOS, of all but the first."""
    before = [BOS, *text[:-1]] if bos else list(text[:-1])
    scored = text if bos else text[1:]
    return -sum(log_prob(one, other) for one, other in zip(before, scored, strict=True))


@dataclass
class ServedBigrams:
    """Answers bodies of /completions as servers do. `kind`: echo, late, prompt, deaf (neither), wrong (other numbers in
    prompts), withholding."""

    kind: str
    bos: str = "none"  # none | hidden (before the prompt, not listed) | shown (of vLLM)
    asked: list[dict[str, Any]] = field(default_factory=list)

    async def complete(self, body: dict[str, Any]) -> Completion:
        self.asked.append(body)
        prompt = body["prompt"]
        context = [BOS, *prompt] if self.bos != "none" else list(prompt)
        generated = max(ALPHABET, key=lambda one: log_prob(context[-1], one))
        table = self._table(context[-1])
        choice: dict[str, Any] = {"text": generated, "index": 0, "finish_reason": "length"}
        if "prompt_logprobs" in body:
            if self.kind == "prompt":
                choice["prompt_logprobs"] = [None, *self._entries(context)]
        elif body.get("echo") and self.kind not in ("prompt", "deaf"):
            choice["logprobs"] = self._echo(prompt, context, generated)
        elif body.get("logprobs") is not None:
            choice["logprobs"] = {
                "tokens": [generated],
                "token_logprobs": [table[generated]],
                "top_logprobs": [table],
            }
        usage = {"prompt_tokens": len(context), "completion_tokens": 1}
        return read_completion({"choices": [choice], "usage": usage})

    def _entries(self, context: list[str]) -> list[dict[str, Any]]:
        pairs = pairwise(context)
        return [{str(ord(one)): {"logprob": log_prob(before, one), "decoded_token": one}} for before, one in pairs]

    def _echo(self, prompt: str, context: list[str], generated: str) -> dict[str, Any]:
        if self.kind == "late":  # what llama-cpp-python lists for a model without BOS
            log_probs: list[float | None] = [None, *(log_prob(one, one) for one in prompt[1:])]
            tables = [None, *(self._table(one) for one in prompt[1:])]
            return {"tokens": list(prompt), "token_logprobs": log_probs, "top_logprobs": tables}
        before = context[-len(prompt) :]
        log_probs = [None, *(log_prob(one, other) for one, other in zip(before, prompt[1:], strict=False))]
        if self.kind == "wrong":
            log_probs = [None, *(value - 1 for value in log_probs[1:] if value is not None)]
        if self.kind == "withholding" and len(log_probs) > 30:
            log_probs[3] = None
        tokens = [*prompt, generated]
        tables = [None, *(self._table(one) for one in prompt)]
        return {
            "tokens": tokens,
            "token_logprobs": [*log_probs, log_prob(prompt[-1], generated)],
            "top_logprobs": tables,
        }

    def _table(self, before: str) -> dict[str, float]:
        return {one: log_prob(before, one) for one in ALPHABET}


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that waits for nothing: an event loop would open a socket, which unit tests may not."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    raise AssertionError("the coroutine waits for something")
