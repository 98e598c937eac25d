"""
What is asked of Ollama for a document to translate or to continue, and what its answer makes of it.

    text    -> limit on tokens
    options -> fields of a request: /api/generate with a prompt as it is, /api/chat for messages
    reply   -> Translation | Generation | Failed | declined: half a text was read, or half a translation written

Knows: one document. Does not know: requests.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from jobs.answers import Unanswered
from jobs.outcome import Outcome
from jobs.providers import Reason
from jobs.tasks.generate import GenerateOptions
from worker.providers.chat.generation import ContinuedPrompt, finish_of, generation_of, messages_of
from worker.providers.chat.translation import ChatAnswer, outcome_of, thoughts_alone, without_thoughts
from worker.providers.http.document_requests import TooLong
from worker.providers.ollama_api.answers import ChatReply

# Of an answer where the job sets no limit: a model that repeats itself would fill its context otherwise. A token is a
# byte or more, mostly several, so a translation may have well over twice the bytes of its text.
MOST_TOKENS_A_BYTE, LEAST_LIMIT = 2, 512


def limit_of(text: str, max_new_tokens: int | None) -> int:
    """The most tokens of an answer (`num_predict`)."""
    return max_new_tokens or LEAST_LIMIT + MOST_TOKENS_A_BYTE * len(text.encode("utf-8", "replace"))


def translation_of(text: str, reply: ChatReply, limit: int) -> Outcome | Unanswered:
    """The outcome of a document, from the answer to its prompt, which was read as a whole."""
    if reply.reached_limit and reply.num_completion_tokens < limit:
        return TooLong(Reason.DECLINED, "its translation does not fit into the context with which the model runs")
    translated, has_block = without_thoughts(text, reply.text)
    has_thoughts = has_block or bool(reply.thoughts)
    if has_thoughts and not translated.strip():
        return thoughts_alone(reply.num_completion_tokens)
    log_probs = None if has_thoughts else log_probs_of(reply)
    answer = ChatAnswer(
        text=translated,
        is_complete=not reply.reached_limit,
        num_prompt_tokens=reply.num_prompt_tokens,
        # So that a perplexity is the mean over the tokens of the sum: the one that ends an answer is not listed.
        num_completion_tokens=reply.num_completion_tokens if log_probs is None else len(log_probs),
        log_probs=log_probs,
    )
    return outcome_of(text, answer)


def log_probs_of(reply: ChatReply) -> Sequence[float] | None:
    """The log-probabilities of the answer's tokens; None where the tokens include text that a parser of
    the server has removed from the answer."""
    if reply.tokens is None:
        return None
    spoken = "".join(token.text for token in reply.tokens)
    # A token may be a part of a character, which JSON cannot carry: then the texts cannot be compared.
    if "\ufffd" not in spoken and spoken.strip() != reply.text.strip():
        return None
    return [token.log_prob for token in reply.tokens]


def request_of(text: str, options: GenerateOptions) -> tuple[str, Mapping[str, Any]]:
    """The path and the fields of a request."""
    sampling: dict[str, Any] = {
        "num_predict": options.max_new_tokens,
        "temperature": options.temperature,
        "seed": options.seed,
        # Each is sent: Ollama's own are 0.9, 40 and 1.1, and a Modelfile may have others.
        "top_p": options.top_p,
        "top_k": options.top_k,
        "min_p": 0,
        "repeat_penalty": 1,
    }
    if options.stop:
        sampling["stop"] = list(options.stop)
    if options.chat:
        return "/api/chat", {"messages": messages_of(text, options), "options": sampling}
    return "/api/generate", {"prompt": text, "raw": True, "options": sampling}


def continuation_of(reply: ChatReply, options: GenerateOptions) -> Outcome | Unanswered:
    """The outcome of a document, whose prompt was read as a whole."""
    log_probs = None if reply.thoughts else log_probs_of(reply)
    answer = ContinuedPrompt(
        text=reply.text,
        finish=finish_of(options, reached_limit=reply.reached_limit, met_stop=None if options.stop else False),
        num_prompt_tokens=reply.num_prompt_tokens,
        num_completion_tokens=reply.num_completion_tokens,
        log_probs=log_probs,
        has_thoughts=bool(reply.thoughts),
    )
    return generation_of(answer)
