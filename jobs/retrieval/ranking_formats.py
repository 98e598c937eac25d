"""
Rankings in the formats of other programs: a TREC run, and the response of Cohere's rerank endpoint.

Knows: these two formats. Does not know: tables, files, how a ranking was computed.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from jobs.corpus.candidates import read_payload
from jobs.documents import quoted
from jobs.errors import SpecError
from jobs.outcome import RankedCandidate
from jobs.ranking import unranked

# The least difference between the scores of two successive ranks, absolute and relative to the score. trec_eval reads
# scores as float32, whose relative precision is 2 ** -23.
LEAST_STEP, LEAST_SHARE = 1e-6, 2.0**-22


@dataclass(frozen=True, slots=True)
class RankedQuery:
    """A query with its candidates before and after reranking."""

    id: str
    candidates: Sequence[RankedCandidate]  # in their new order
    first_stage: Sequence[str]  # their ids, in the order of the first stage
    has_numeric_id: bool = False  # the corpus writes the id as a number

    @classmethod
    def restore(
        cls, query_id: str, *, payload: str | None, ranking: str | None, error: str | None, has_numeric_id: bool = False
    ) -> "RankedQuery":
        """A query from what a job stores: the document's payload (None for a rejected document, which has no
        candidates), its ranking as a JSON list, or the error for which there is none: then candidates keep the first
        stage's order."""
        _, given = read_payload(payload) if payload is not None else ("", [])
        if ranking is None:
            candidates = unranked(
                [(candidate.id, candidate.score) for candidate in given], error or "it has not been ranked"
            )
        else:
            candidates = tuple(_candidate(**values) for values in orjson.loads(ranking))
        return cls(query_id, candidates, [candidate.id for candidate in given], has_numeric_id)


@dataclass(frozen=True, slots=True)
class TrecRun:
    """`qid Q0 docid rank score tag`, a line per candidate.

    trec_eval ignores the rank: it sorts by score, as float32, and equal scores by descending id. So the written scores
    decrease strictly from rank to rank: a score that is not below the one before (a tie), and a candidate without a
    score, get the next lower number. Candidates without a score before the first scored one begin at its score. If
    none has a score, the scores are -1, -2, ...
    """

    tag: str  # white space in it is written as -

    def head(self) -> bytes:
        return b""

    def line(self, query: RankedQuery) -> bytes:
        """The lines of a query. Raises SpecError for an id with white space."""
        tag = "-".join(self.tag.split())
        query_id = _unbroken(query.id, "query")
        return "".join(
            f"{query_id} Q0 {_unbroken(candidate.id, 'candidate')} {candidate.rank} {score:.9g} {tag}\n"
            for candidate, score in zip(query.candidates, falling(query.candidates), strict=True)
        ).encode()


@dataclass(frozen=True, slots=True)
class CohereLines:
    """`{"id", "results": [{"index", "relevance_score", "document": {"id"}}]}`, a line per query, best first.

    `index` is the candidate's index in the given list, from 0. `relevance_score` is the score by which it was ranked (a
    mean log-probability, below 0; with fusion a number from 0 to 1), or null, with an `error` beside it.
    """

    def head(self) -> bytes:
        return b""

    def line(self, query: RankedQuery) -> bytes:
        indices = {candidate_id: index for index, candidate_id in enumerate(query.first_stage)}
        results = []
        for candidate in query.candidates:
            result: dict[str, Any] = {
                "index": indices[candidate.id],
                "relevance_score": candidate.score,
                "document": {"id": candidate.id},
            }
            results.append(result | ({"error": candidate.error} if candidate.error else {}))
        query_id: Any = orjson.Fragment(query.id) if query.has_numeric_id else query.id
        return orjson.dumps({"id": query_id, "results": results}) + b"\n"


def falling(candidates: Sequence[RankedCandidate]) -> list[float]:
    """A score for each rank, strictly decreasing as float32: the candidate's own wherever it is lower than the one
    before."""
    if all(candidate.score is None for candidate in candidates):
        return [float(-candidate.rank) for candidate in candidates]
    last = next(candidate.score for candidate in candidates if candidate.score is not None)
    written: list[float] = []
    for candidate in candidates:
        last = candidate.score if candidate.score is not None else last
        score = _float32(last)
        if written and score >= written[-1]:
            before = written[-1]
            score = _float32(before - max(LEAST_STEP, abs(before) * LEAST_SHARE))
        written.append(score)
    return written


def _candidate(
    *, id: str, rank: int, score: float | None, first_score: float | None = None, error: str | None = None
) -> RankedCandidate:
    """A candidate from the JSON that `jobs.store` writes, which leaves out keys without a value."""
    return RankedCandidate(id, rank, score, first_score, error)


def _float32(value: float) -> float:
    (rounded,) = struct.unpack("f", struct.pack("f", value))
    return float(rounded)


def _unbroken(value: str, what: str) -> str:
    if not value or any(character.isspace() for character in value):
        raise SpecError(
            f"the {what} id {quoted(value)} has white space, which separates the columns of a TREC run; export as jsonl"
        )
    return value
