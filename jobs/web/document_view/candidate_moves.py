"""The candidates of a query with their old and new ranks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson


@dataclass(frozen=True, slots=True)
class Move:
    """A candidate and its way from the first stage's order to the new one."""

    id: str
    rank: int  # from 1
    old_rank: int | None  # from 1; None: the corpus line does not have it
    score: float | None
    first_score: float | None
    error: str | None
    text: str | None  # None: the corpus does not have it

    @property
    def direction(self) -> str:
        """`up`, `down` or `same`."""
        if self.old_rank is None or self.old_rank == self.rank:
            return "same"
        return "up" if self.rank < self.old_rank else "down"

    @property
    def by(self) -> int:
        """How many ranks the candidate moved."""
        return 0 if self.old_rank is None else abs(self.rank - self.old_rank)


def moves_of(candidates: str, payload: str | None) -> list[Move]:
    """The candidates of a ranking, best first. `payload`: the query's line, where candidates stand in the old order."""
    before = _candidates(payload)
    old = {candidate.get("id"): (rank, candidate) for rank, candidate in enumerate(before, 1)}
    found = []
    for candidate in orjson.loads(candidates):
        old_rank, given = old.get(candidate["id"], (None, {}))
        found.append(
            Move(
                id=candidate["id"],
                rank=candidate["rank"],
                old_rank=old_rank,
                score=candidate["score"],
                first_score=candidate.get("first_score"),
                error=candidate.get("error"),
                text=given.get("text"),
            )
        )
    return found


def _candidates(payload: str | None) -> Sequence[dict[str, Any]]:
    if payload is None:
        return ()
    found: Sequence[dict[str, Any]] = orjson.loads(payload).get("candidates") or ()
    return found
