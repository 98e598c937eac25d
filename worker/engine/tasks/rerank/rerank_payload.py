"""The payload of a document to rerank: a query and its candidates, in the order of the first stage."""

from dataclasses import dataclass
from typing import Any

import orjson

from jobs.outcome import Failed, Flag, Outcome, Ranking
from jobs.ranking import unranked


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
            candidates = (PayloadCandidate(one["id"], one.get("score"), one["text"]) for one in values["candidates"])
            return cls(values["query"], tuple(candidates))
        except (ValueError, TypeError, KeyError, AttributeError):
            return None


BAD_PAYLOAD = Failed("bad-payload", "the document is not a query with candidates")


def keep_order(payload: str, reason: str) -> Outcome:
    """The outcome of a query that could not be ranked: its candidates in the given order, each with the reason."""
    query = RerankPayload.read(payload)
    if query is None:
        return BAD_PAYLOAD
    return Ranking(
        candidates=unranked(((one.id, one.first_score) for one in query.candidates), reason),
        num_tokens=0,
        num_computed=0,
        num_shared=0,
        flags=(Flag.KEPT_ORDER,),
    )
