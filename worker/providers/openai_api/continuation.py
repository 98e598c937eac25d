"""
Continuing prompts by a server that speaks the API of OpenAI: /completions, or /chat/completions for messages.

    options -> fields of a request
    answer  -> Generation | Failed | declined

Knows: one document. Does not know: requests, several documents.
"""

from collections.abc import Mapping
from typing import Any

from jobs.answers import Unanswered
from jobs.outcome import Failed, Outcome
from jobs.provider_settings.server_address import OPENAI_URL
from jobs.tasks.generate import GenerateOptions
from worker.providers.chat.generation import ContinuedPrompt, continues_answer, finish_of, generation_of, messages_of
from worker.providers.http.client import shown
from worker.providers.openai_api.answers import ChatChoice, bad

MOST_STOPS = 4  # of OpenAI itself
CHAT, PLAIN = "/chat/completions", "/completions"
Fields = Mapping[str, Any]
# Fields that a server may refuse, by the word with which it names them. llama-cpp-python wants both of a chat.
CHAT_LOG_PROBS: Mapping[str, Fields] = {"logprobs": {"logprobs": True, "top_logprobs": 1}}
PLAIN_LOG_PROBS: Mapping[str, Fields] = {"logprobs": {"logprobs": 1}}
NO_PENALTY: Mapping[str, Fields] = {"repeat_penalty": {"repeat_penalty": 1}}  # llama-cpp-python's own is 1.1
# Of vLLM and SGLang; llama.cpp's server continues an answer without them, too.
CONTINUED: Fields = {"continue_final_message": True, "add_generation_prompt": False}
# TGI has the last three, older versions of it in place of `stop`.
_ENDS = ("stop", "eos", "eos_token", "stop_sequence")


def why_not_generate(options: GenerateOptions, base_url: str) -> str | None:
    """Why a server cannot do a generating job with these options, a sentence; None: it can, or it says so itself."""
    if base_url != OPENAI_URL:
        return None
    if options.top_k:
        return "OpenAI has no top_k, so --top-k cannot be followed: --top-p can"
    if len(options.stop) > MOST_STOPS:
        return f"OpenAI takes {MOST_STOPS} stop texts at most, and --stop gives {len(options.stop)}"
    return None


def why_not_continue(text: str, options: GenerateOptions, base_url: str) -> str | None:
    """Why a server cannot continue this document, a sentence; None: it can, or it says so itself."""
    if base_url == OPENAI_URL and options.chat and continues_answer(text):
        return "OpenAI gives a new answer where one has been begun, and does not continue it"
    return None


def request_of(text: str, options: GenerateOptions) -> tuple[str, Fields, Mapping[str, Fields]]:
    """The path, the fields of a request, and those that a server may refuse, by the word with which it names them."""
    body: dict[str, Any] = {
        "temperature": options.temperature,
        "seed": options.seed,
        "max_tokens": options.max_new_tokens,
    }
    body |= {"stop": list(options.stop)} if options.stop else {}
    optional = {**(CHAT_LOG_PROBS if options.chat else PLAIN_LOG_PROBS), **NO_PENALTY}
    if options.temperature:
        body["top_p"] = options.top_p
        # Without them llama-cpp-python draws from 40 tokens, and vLLM from those that the model's makers thought best.
        optional["min_p"] = {"min_p": 0}
        if options.top_k:
            body["top_k"] = options.top_k
        else:
            optional["top_k"] = {"top_k": 0}
    if options.chat:
        if continues_answer(text):
            body |= CONTINUED
        return CHAT, body | {"messages": messages_of(text, options)}, optional
    return PLAIN, body | {"prompt": text}, optional


def continuation_of(found: ChatChoice, options: GenerateOptions) -> Outcome | Unanswered:
    """The outcome of a document. Raises ProviderFailure for half an answer."""
    if found.refusal or found.finish_reason == "content_filter":
        why = shown(found.refusal) if found.refusal else "content filter"
        return Failed("refused", f"the chat model refuses to answer: {why}")
    if found.finish_reason not in (*_ENDS, "length"):
        said = shown(found.finish_reason) if found.finish_reason else "none"
        raise bad(f"has a finish_reason that is neither stop nor length: {said}")
    met_stop = True if found.finish_reason == "stop_sequence" else found.met_stop
    answer = ContinuedPrompt(
        text=found.text,
        finish=finish_of(options, reached_limit=found.finish_reason == "length", met_stop=met_stop),
        num_prompt_tokens=found.usage.prompt,
        num_completion_tokens=found.usage.completion,
        log_probs=found.log_probs,
        # OpenAI does not show what its models think: then a chat of no text has reached the limit on tokens.
        has_thoughts=found.has_thoughts or (options.chat and found.finish_reason == "length"),
    )
    return generation_of(answer)
