"""
Candidates with the sequence that a model reads for each, together with the query: how they are made and ranked.

Knows: payloads, texts that are missing, scores. Does not know: models, how a sequence is made of two texts.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from jobs.errors import ModelError
from jobs.outcome import Flag, Ranking
from jobs.ranking import Judged, rank
from worker.engine.tasks.document_assembly import merge_flags
from worker.engine.tasks.rerank.rerank_payload import RerankPayload
from worker.engine.tasks.rerank.reranking import missing_text

NON_FINITE = "the model's score is not finite (NaN or infinity)"


class Read(Protocol):
    """The sequence of a candidate."""

    @property
    def ids(self) -> Sequence[int]: ...
    @property
    def is_cut(self) -> bool:
        """Whether one of the texts lost tokens."""


Item = TypeVar("Item", bound=Read)


@dataclass(frozen=True, slots=True)
class Candidate(Generic[Item]):
    """A candidate with its sequence, or the reason why it has none."""

    id: str
    first_score: float | None
    read: Item | None
    error: str | None


def read_candidates(payload: str, make: Callable[[str, str], Item]) -> list[Candidate[Item]] | None:
    """The candidates of a query; None if the payload has another form than `rerank` documents. `make`: the sequence of
    a query and a document; it raises ModelError for a text that the tokenizer cannot encode, which fails alone."""
    query = RerankPayload.read(payload)
    if query is None:
        return None
    candidates = []
    for one in query.candidates:
        read, error = None, missing_text(query.query, one.text)
        if error is None and one.text is not None:
            try:
                read = make(query.query, one.text)
            except ModelError as why:
                error = str(why)
        candidates.append(Candidate(one.id, one.first_score, read, error))
    return candidates


def sequences_of(candidates: Sequence[Candidate[Item]]) -> list[Item]:
    """The sequences of those that have one."""
    return [one.read for one in candidates if one.read is not None]


def ranking_of(candidates: Sequence[Candidate[Item]], scores: Iterator[float], fusion: float) -> Ranking:
    """The ranking of a query; takes a score for each of `sequences_of`."""
    judged = []
    for one in candidates:
        score, error = None, one.error
        if one.read is not None:
            score = next(scores)
            error = None if math.isfinite(score) else NON_FINITE
        judged.append(Judged(one.id, score, one.first_score, error))
    ranked = rank(judged, fusion)
    num_tokens = sum(len(read.ids) for read in sequences_of(candidates))
    is_kept, is_cut = any(one.error for one in ranked), any(read.is_cut for read in sequences_of(candidates))
    return Ranking(
        candidates=ranked,
        num_tokens=num_tokens,
        num_computed=num_tokens,
        num_shared=0,
        flags=merge_flags([Flag.KEPT_ORDER] if is_kept else [], [Flag.TRUNCATED] if is_cut else []),
    )
