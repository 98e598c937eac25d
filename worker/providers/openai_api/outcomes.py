"""
The request to a server with the API of OpenAI for one document, and the outcome that its answer gives.

    continue   /completions, or /chat/completions for messages
    score      the sums of the log-probabilities of its tokens, as `worker.engine.tasks.scoring` makes them
    rerank     POST /rerank (Jina's form, which vLLM and llama.cpp have): a relevance score for each document; else the
               mean log-probability of the scored part of the prompt, as `worker.engine.tasks.rerank.reranking`. A
               token that begins before the scored part and reaches into it counts: a server cuts the whole prompt into
               tokens, not its two parts.

A query is ranked by one provider alone: a candidate that the server cannot score sends the whole query on.
Knows: one document. Does not know: requests, several documents.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jobs.answers import Unanswered
from jobs.outcome import Failed, Flag, Outcome, Ranking, Score, TokenScore
from jobs.provider_settings.server_address import OPENAI_URL
from jobs.ranking import Judged, rank
from jobs.tasks.generate import GenerateOptions
from jobs.tasks.rerank import Method, RerankOptions
from jobs.tasks.score import Bos, ScoreOptions, Window
from worker.engine.tasks.document_assembly import merge_flags
from worker.engine.tasks.rerank.rerank_payload import BAD_PAYLOAD, PayloadCandidate, RerankPayload, missing_text
from worker.providers.chat.generation import ContinuedPrompt, continues_answer, finish_of, generation_of, messages_of
from worker.providers.chat.repetition_rules import why_not_against_repetition
from worker.providers.http.client import shown
from worker.providers.openai_api.answers import ChatChoice, bad_answer
from worker.providers.openai_api.prompt_scores import PromptScores, TextDeclined
from worker.providers.openai_api.prompt_tokens import num_bytes

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
    if why := why_not_against_repetition(options):
        return why
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
        raise bad_answer(f"has a finish_reason that is neither stop nor length: {said}")
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


def why_not_score(options: ScoreOptions) -> str | None:
    """Why a server cannot do a scoring job with these options, a sentence; None: it can."""
    if options.pairs:
        return "a server of language models cannot score pairs as a translation model does"
    for name, is_set in (
        ("bos", options.bos is not Bos.AUTO),
        ("window", options.window is not Window.STRIDE),
        ("max-length", options.max_length is not None),
        ("stride", options.stride is not None),
    ):
        if is_set:
            return f"the server decides itself how a text is read, so --{name} cannot be followed"
    return None


def score_of(text: str, found: PromptScores, *, keeps_tokens: bool) -> Outcome:
    """The score of a document: every token but a first one without anything before it."""
    scored = [(place, log_prob) for place, log_prob in zip(found.places, found.log_probs, strict=True)]
    known = [log_prob for _, log_prob in scored if log_prob is not None]
    if not all(map(math.isfinite, known)):
        return Failed("non-finite", "the server's log-probabilities are not finite (NaN or infinity)")
    flags = [Flag.UNSCORED_FIRST] if scored and scored[0][1] is None else []
    if not known:
        flags.append(Flag.UNSCORED)
    begin = next((place.start for place, log_prob in scored if log_prob is not None), None)
    if scored and scored[0][1] is not None:
        begin = 0
    covered = text.encode("utf-8", "surrogatepass")[begin:] if begin is not None else b""
    return Score(
        nll_sum=0.0 - math.fsum(known),
        num_tokens=len(known),
        num_words=len(covered.decode("utf-8", "replace").split()),
        num_bytes=len(covered),
        flags=merge_flags(flags),
        tokens=_token_scores(text, found) if keeps_tokens else (),
    )


def _token_scores(text: str, found: PromptScores) -> tuple[TokenScore, ...]:
    encoded = text.encode("utf-8", "surrogatepass")
    return tuple(
        TokenScore(encoded[place.start : place.stop].decode("utf-8", "replace"), place.start, place.stop, log_prob)
        for place, log_prob in zip(found.places, found.log_probs, strict=True)
    )


@dataclass(frozen=True, slots=True)
class RankedText:
    """A candidate's score, and the tokens behind it."""

    score: float
    num_scored: int
    num_computed: int


def why_not_rerank(options: RerankOptions) -> str | None:
    """Why a server cannot do a reranking job with these options, a sentence; None: it can."""
    if options.method in (Method.CROSS_ENCODER, Method.YES_NO):
        return f"a server is asked for {Method.QUERY_LIKELIHOOD} or {Method.PERPLEXITY}, not for {options.method}"
    if options.max_length is not None:
        return "the server decides itself how long a sequence may be, so --max-length cannot be followed"
    return None


def candidates_with_text(query: RerankPayload) -> list[PayloadCandidate]:
    """The candidates that can be scored."""
    return [candidate for candidate in query.candidates if missing_text(query.query, candidate.text) is None]


def score_of_part(given: str, scored: str, found: PromptScores) -> RankedText:
    """The mean log-probability of the scored part, of the prompt `given + scored`. Raises TextDeclined where no token
    of it has one."""
    prompt = given + scored
    # White space alone, before it, makes no token count.
    begin = num_bytes(given) + num_bytes(scored) - num_bytes(scored.lstrip())
    values = [
        log_prob
        for place, log_prob in zip(found.places, found.log_probs, strict=True)
        if place.stop > begin and log_prob is not None and (place.start < place.stop or place.start > begin)
    ]
    if not values or not prompt:
        raise TextDeclined("no token of the scored part has a log-probability")
    return RankedText(sum(values) / len(values), len(values), len(found.places))


def ranking_of(payload: str, scores: Sequence[RankedText], options: RerankOptions) -> Outcome:
    """The outcome of a query; `scores` of `candidates_with_text`, in their order."""
    query = RerankPayload.read(payload)
    if query is None:
        return BAD_PAYLOAD
    in_order = iter(scores)
    judged = []
    for candidate in query.candidates:
        error = missing_text(query.query, candidate.text)
        judged.append(Judged(candidate.id, None if error else next(in_order).score, candidate.first_score, error))
    candidates = rank(judged, options.fusion)
    return Ranking(
        candidates=candidates,
        num_tokens=sum(ranked.num_scored for ranked in scores),
        num_computed=sum(ranked.num_computed for ranked in scores),
        num_shared=0,
        flags=(Flag.KEPT_ORDER,) if any(candidate.error for candidate in candidates) else (),
    )
