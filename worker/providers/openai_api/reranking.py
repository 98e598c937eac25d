"""Reranking by a server: by its own endpoint for rankers, or by the log-probabilities of a prompt.

    endpoint   POST /rerank (Jina's form, which vLLM and llama.cpp have): a relevance score for each document
    scoring    the mean log-probability of the scored part of the prompt, as `worker.engine.tasks.rerank.reranking`. A
               token that begins before the scored part and reaches into it counts: a server cuts the whole prompt
               into tokens, not its two parts.

A query is ranked by one provider alone: a candidate that the server cannot score sends the whole query on.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from jobs.outcome import Flag, Outcome, Ranking
from jobs.ranking import Judged, rank
from jobs.tasks.rerank import Method, RerankOptions
from worker.engine.tasks.rerank.prompt_templates import template_of
from worker.engine.tasks.rerank.rerank_payload import BAD_PAYLOAD, PayloadCandidate, RerankPayload, missing_text
from worker.providers.openai_api.prompt_scores import PromptScores, TextDeclined
from worker.providers.openai_api.prompt_tokens import num_bytes


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
    """Those that can be scored."""
    return [one for one in query.candidates if missing_text(query.query, one.text) is None]


def prompt_parts(query: str, document: str, options: RerankOptions) -> tuple[str, str]:
    """The given and the scored part of a prompt."""
    return template_of(options).split(query, document)


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
    for one in query.candidates:
        error = missing_text(query.query, one.text)
        judged.append(Judged(one.id, None if error else next(in_order).score, one.first_score, error))
    candidates = rank(judged, options.fusion)
    return Ranking(
        candidates=candidates,
        num_tokens=sum(one.num_scored for one in scores),
        num_computed=sum(one.num_computed for one in scores),
        num_shared=0,
        flags=(Flag.KEPT_ORDER,) if any(one.error for one in candidates) else (),
    )
