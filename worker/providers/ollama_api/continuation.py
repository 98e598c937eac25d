"""
Continuing prompts by Ollama: /api/generate with the prompt as it is, or /api/chat for messages.

    options -> fields of a request
    reply   -> Generation | declined

Knows: one document. Does not know: requests.
"""

from collections.abc import Mapping
from typing import Any

from jobs.answers import Unanswered
from jobs.outcome import Outcome
from jobs.tasks.generate import GenerateOptions
from worker.providers.chat.generation import ContinuedPrompt, finish_of, messages_of, outcome_of
from worker.providers.ollama_api.answers import ChatReply
from worker.providers.ollama_api.translation import log_probs_of


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
    return outcome_of(answer)
