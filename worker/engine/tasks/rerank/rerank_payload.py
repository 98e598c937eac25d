"""The payload of a document to rerank: a query and its candidates, in the order of the first stage."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import orjson

from jobs.errors import ModelError
from jobs.outcome import Failed, Flag, Outcome, Ranking
from jobs.ranking import NO_TEXT, NOT_IN_CORPUS, Judged, rank, unranked
from worker.engine.tasks.document_assembly import merge_flags

NON_FINITE = "the model's score is not finite (NaN or infinity)"


@dataclass(frozen=True, slots=True)
class PayloadCandidate:
    """A candidate as the corpus gives it."""

    id: str
    first_score: float | None  # of the first stage
    text: str | None  # None: the corpus has none for it


@dataclass(frozen=True, slots=True)
class RerankPayload:
    """`{"query": ..., "candidates": [{"id": ..., "text": ..., "score"?: ...}, ...]}`, read."""

    query: str
    candidates: tuple[PayloadCandidate, ...]

    @classmethod
    def read(cls, payload: str) -> "RerankPayload | None":
        """The payload; None if the text has another form than `rerank` documents."""
        try:
            values: dict[str, Any] = orjson.loads(payload)
            candidates = (
                PayloadCandidate(candidate["id"], candidate.get("score"), candidate["text"])
                for candidate in values["candidates"]
            )
            return cls(values["query"], tuple(candidates))
        except (ValueError, TypeError, KeyError, AttributeError):
            return None


NO_QUERY = "the query holds no text"
BAD_PAYLOAD = Failed("bad-payload", "the document is not a query with candidates")


def missing_text(query: Any, document: Any) -> str | None:
    """Why a candidate cannot be scored: one of the texts is missing or empty; None: both are there."""
    if not query or query.isspace():
        return NO_QUERY
    if document is None:
        return NOT_IN_CORPUS
    return NO_TEXT if not document or document.isspace() else None


def keep_order(payload: str, reason: str) -> Outcome:
    """The outcome of a query that could not be ranked: its candidates in the given order, each with the reason."""
    query = RerankPayload.read(payload)
    if query is None:
        return BAD_PAYLOAD
    return Ranking(
        candidates=unranked(((candidate.id, candidate.first_score) for candidate in query.candidates), reason),
        num_tokens=0,
        num_computed=0,
        num_shared=0,
        flags=(Flag.KEPT_ORDER,),
    )


class TokenSequence(Protocol):
    """The tokens that the model reads for a query and a candidate."""

    @property
    def ids(self) -> Sequence[int]: ...
    @property
    def is_cut(self) -> bool:
        """Whether one of the texts lost tokens."""


Item = TypeVar("Item", bound=TokenSequence)


@dataclass(frozen=True, slots=True)
class ReadCandidate(Generic[Item]):
    """A candidate with its sequence, or the reason why it has none."""

    id: str
    first_score: float | None
    sequence: Item | None
    error: str | None


def read_candidates(payload: str, make: Callable[[str, str], Item]) -> list[ReadCandidate[Item]] | None:
    """The candidates of a query; None if the payload has another form than `rerank` documents. `make`: the sequence of
    a query and a document; it raises ModelError for a text that the tokenizer cannot encode, which fails alone."""
    query = RerankPayload.read(payload)
    if query is None:
        return None
    candidates = []
    for candidate in query.candidates:
        sequence, error = None, missing_text(query.query, candidate.text)
        if error is None and candidate.text is not None:
            try:
                sequence = make(query.query, candidate.text)
            except ModelError as why:
                error = str(why)
        candidates.append(ReadCandidate(candidate.id, candidate.first_score, sequence, error))
    return candidates


def sequences_of(candidates: Sequence[ReadCandidate[Item]]) -> list[Item]:
    """The sequences of the candidates that have one, in order."""
    return [candidate.sequence for candidate in candidates if candidate.sequence is not None]


def ranking_of(
    candidates: Sequence[ReadCandidate[Item]], scores: Iterator[float], fusion: float, *, not_finite: str = NON_FINITE
) -> Ranking:
    """The ranking of a query; takes a score for each of `sequences_of`. `not_finite`: the error of a candidate whose
    score is NaN or infinity."""
    judged = []
    for candidate in candidates:
        score, error = None, candidate.error
        if candidate.sequence is not None:
            score = next(scores)
            error = None if math.isfinite(score) else not_finite
        judged.append(Judged(candidate.id, score, candidate.first_score, error))
    ranked = rank(judged, fusion)
    num_tokens = sum(len(sequence.ids) for sequence in sequences_of(candidates))
    is_kept, is_cut = (
        any(candidate.error for candidate in ranked),
        any(sequence.is_cut for sequence in sequences_of(candidates)),
    )
    return Ranking(
        candidates=ranked,
        num_tokens=num_tokens,
        num_computed=num_tokens,
        num_shared=0,
        flags=merge_flags([Flag.KEPT_ORDER] if is_kept else [], [Flag.TRUNCATED] if is_cut else []),
    )
