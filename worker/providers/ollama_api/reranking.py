"""Reranking by Ollama: the model answers Yes or No for each candidate. A query is ranked by one provider alone."""

import math
from collections.abc import Iterable

from jobs.answers import Unanswered
from jobs.outcome import Flag, Outcome, Ranking
from jobs.providers import Reason
from jobs.ranking import Judged, rank
from jobs.tasks.rerank import Method, RerankOptions
from worker.engine.tasks.rerank.rerank_payload import BAD_PAYLOAD, RerankPayload, missing_text
from worker.providers.http.client import Exchange, UsageCount
from worker.providers.ollama_api.answers import ChatReply, bad_answer
from worker.providers.ollama_api.server import Declined, OllamaModel
from worker.providers.protocol import ProviderFailure

PROBED_QUERY, PROBED_DOCUMENT = "Will it rain in Arden?", "In Arden it will rain on Friday."
NUM_LISTED = 20  # most likely tokens, the most that a server lists (`server/routes.go` of Ollama)
PROMPT = (
    "Is the document relevant to the query? Answer with one word, Yes or No.\n\nQuery: {query}\n\n"
    "Document: {document}\n\nIs the document relevant to the query? Answer Yes or No."
)
NEITHER = f"neither Yes nor No is among the {NUM_LISTED} most likely beginnings of the model's answer"
NO_WORD = "the model ended its answer before the first word"
THINKS = "the model thinks before it answers, so its first word is not yet Yes or No"


def why_not_rerank(options: RerankOptions) -> str | None:
    """Why Ollama cannot do a reranking job with these options, a sentence; None: it can."""
    if options.method not in (None, Method.QUERY_LIKELIHOOD):
        return f"it ranks by an answer Yes or No, so --method {options.method} cannot be followed"
    if options.template is not None:
        return "it ranks by an answer Yes or No, with a prompt of its own, so --template cannot be followed"
    if options.max_length is not None:
        return "Ollama does not tell how many tokens a text has, so --max-length cannot be followed"
    return None


async def check_answers(model: OllamaModel) -> None:
    """Ask a plain question, to find out whether the model's answers can rank. Raises ProviderFailure."""
    try:
        reply = await _first_word(model, PROBED_QUERY, PROBED_DOCUMENT, Exchange(), UsageCount("probe"))
        score_of(reply)
    except Declined as why:
        raise ProviderFailure(Reason.OPEN_ERROR, f"the model cannot be asked Yes or No: {why}") from None
    except NoRelevance as why:
        if str(why) in (NEITHER, NO_WORD, THINKS):  # else it is sure of its answer
            raise ProviderFailure(Reason.OPEN_ERROR, f"the model {model.name} cannot rank: {why}") from None


async def rerank(
    model: OllamaModel, payload: str, options: RerankOptions, exchange: Exchange, usage: UsageCount
) -> Outcome | Unanswered:
    """Rank the candidates of a query. Equal candidates are asked once. Raises ProviderFailure."""
    query = RerankPayload.read(payload)
    if query is None:
        return BAD_PAYLOAD
    found: dict[str, float | str] = {}  # by text: the score, or why there is none
    num_computed = 0
    judged = []
    for candidate in query.candidates:
        error = missing_text(query.query, candidate.text)
        if error is not None or candidate.text is None:
            judged.append(Judged(candidate.id, None, candidate.first_score, error))
            continue
        if candidate.text not in found:
            try:
                reply = await _first_word(model, query.query, candidate.text, exchange, usage)
            except Declined as why:
                return why.unanswered("it cannot score a candidate: ")
            num_computed += reply.num_prompt_tokens
            found[candidate.text] = _score_or_reason(reply)
        score = found[candidate.text]
        if isinstance(score, str):
            judged.append(Judged(candidate.id, None, candidate.first_score, score))
        else:
            judged.append(Judged(candidate.id, score, candidate.first_score))
    reasons = [score for score in found.values() if isinstance(score, str)]
    if reasons and len(reasons) == len(found):
        return Unanswered(Reason.DECLINED, f"it cannot score any candidate: {reasons[0]}")
    candidates = rank(judged, options.fusion)
    return Ranking(
        candidates=candidates,
        num_tokens=len(found) - len(reasons),  # the first token of each answer
        num_computed=num_computed,
        num_shared=0,
        flags=(Flag.KEPT_ORDER,) if any(candidate.error for candidate in candidates) else (),
    )


async def _first_word(
    model: OllamaModel, query: str, document: str, exchange: Exchange, usage: UsageCount
) -> ChatReply:
    """The first token of the model's answer. Raises Declined and ProviderFailure."""
    prompt = prompt_of(query, document)
    reply = await model.chat(prompt, exchange, usage, num_predict=1, num_listed=NUM_LISTED)
    if reply.text and not (reply.tokens and reply.tokens[0].most_likely):
        raise bad_answer("lists no log-probabilities of the tokens it holds, which Ollama does since version 0.12.11")
    return reply


def _score_or_reason(reply: ChatReply) -> float | str:
    try:
        return score_of(reply)
    except NoRelevance as why:
        return str(why)


class NoRelevance(Exception):
    """An answer has no score; the message is the reason."""


def prompt_of(query: str, document: str) -> str:
    """The user's message. The query comes first: a server computes a beginning that prompts share once. Both texts may
    hold braces."""
    before, _, rest = PROMPT.partition("{query}")
    between, _, after = rest.partition("{document}")
    return f"{before}{query}{between}{document}{after}"


def score_of(reply: ChatReply) -> float:
    """log p(yes) - log p(no) at the first token of an answer, natural log, each p summed over the spellings that are
    listed: "Yes", " yes", ... Raises NoRelevance.

    The difference does not depend on what else the model might have said. It is a pointwise ranker, as monoT5 (Nogueira
    et al. 2020, "Document Ranking with a Pretrained Sequence-to-Sequence Model"), but of a model that was not trained
    for it. Where Yes or No is not listed, only a bound of its probability is known, and a bound is not a score.
    """
    if reply.thoughts:
        raise NoRelevance(THINKS)
    if not reply.tokens:
        raise NoRelevance(NO_WORD)
    listed = reply.tokens[0].most_likely
    yes, no = (_log_sum(log_prob for text, log_prob in listed if _word(text) == word) for word in ("yes", "no"))
    if yes is None and no is None:
        raise NoRelevance(NEITHER)
    if yes is None or no is None:
        missing, there = ("Yes", "No") if yes is None else ("No", "Yes")
        raise NoRelevance(
            f"{there} is among the {NUM_LISTED} most likely beginnings of the model's answer and {missing} is not, so "
            "its probability has a bound and no value"
        )
    return yes - no


def _word(token: str) -> str:
    """`yes` for "Yes", " yes", "YES". A longer word ("Yesterday", "Not") is another word."""
    return token.strip().casefold()


def _log_sum(log_probs: Iterable[float]) -> float | None:
    """The log of the sum of the probabilities; None if there are none."""
    values = list(log_probs)
    if not values:
        return None
    most = max(values)
    return most + math.log(math.fsum(math.exp(value - most) for value in values))
