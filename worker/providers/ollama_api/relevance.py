"""
The relevance of a document to a query, by a chat model's answer Yes or No.

    prompt   "Is the document relevant to the query? ..."
    answer   the most likely first tokens   {"Yes": -0.2, " yes": -3.1, "No": -2.1, "The": -5.0, ...}
    score    log p(yes) - log p(no)         p is the sum over the spellings

The difference does not depend on what else the model might have said. It is a pointwise ranker, as monoT5 (Nogueira et
al. 2020, "Document Ranking with a Pretrained Sequence-to-Sequence Model"), but of a model that was not trained for it.

Where Yes or No is not listed, only a bound of its probability is known, and a bound is not a score: there is none then.
"""

import math
from collections.abc import Iterable

from worker.providers.ollama_api.answers import ChatReply

NUM_LISTED = 20  # most likely tokens, the most that a server lists (`server/routes.go` of Ollama)
PROMPT = (
    "Is the document relevant to the query? Answer with one word, Yes or No.\n\nQuery: {query}\n\n"
    "Document: {document}\n\nIs the document relevant to the query? Answer Yes or No."
)

NEITHER = f"neither Yes nor No is among the {NUM_LISTED} most likely beginnings of the model's answer"
NO_WORD = "the model ended its answer before the first word"
THINKS = "the model thinks before it answers, so its first word is not yet Yes or No"


class NoRelevance(Exception):
    """An answer has no score; the message is the reason."""


def prompt_of(query: str, document: str) -> str:
    """The user's message. The query comes first: a server computes a beginning that prompts share once. Both texts may
    hold braces."""
    before, _, rest = PROMPT.partition("{query}")
    between, _, after = rest.partition("{document}")
    return f"{before}{query}{between}{document}{after}"


def score_of(reply: ChatReply) -> float:
    """log p(yes) - log p(no) at the first token of an answer, natural log. Raises NoRelevance."""
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
    """`yes` for "Yes", " yes", "YES". A longer word ("Yesterday", "Not") is another one."""
    return token.strip().casefold()


def _log_sum(log_probs: Iterable[float]) -> float | None:
    """log of the sum of probabilities; None of none."""
    values = list(log_probs)
    if not values:
        return None
    most = max(values)
    return most + math.log(math.fsum(math.exp(value - most) for value in values))
