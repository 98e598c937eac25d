"""From runs to rows: medians, ratios, shares.

Knows: arithmetic. Does not know: engines, printing.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Ids = list[int]

MILLISECONDS = "ms"


@dataclass(frozen=True, slots=True)
class Row:
    """One work, kvjobs against one peer, from the same rounds."""

    work: str
    peer: str
    ours: float  # tokens/s or milliseconds, the median of the rounds
    theirs: float
    unit: str = "tokens/s"
    cpu_ratio: float | None = None  # the same, of tokens a second of processor time
    our_share: float | None = None  # of the machine's peak at our precision
    their_share: float | None = None
    our_equal: float | None = None  # of the tokens, those that transformers in fp32 has there
    their_equal: float | None = None

    @property
    def ratio(self) -> float:
        """How many times as fast as theirs: our rate divided by theirs, or their milliseconds by ours."""
        return self.theirs / self.ours if self.unit == MILLISECONDS else self.ours / self.theirs

    def as_json(self) -> dict[str, Any]:
        """The keys that every benchmark prints with --json, and `cpu_ratio` where processor time was measured."""
        row: dict[str, Any] = {
            "work": self.work,
            "peer": self.peer,
            "ours": round(self.ours, 1),
            "theirs": round(self.theirs, 1),
            "unit": self.unit,
            "ratio": round(self.ratio, 3),
        }
        if self.cpu_ratio is not None:
            row["cpu_ratio"] = round(self.cpu_ratio, 3)
        return row


def compare(work: str, peer: str, ours: Sequence[float], theirs: Sequence[float]) -> Row:
    """A row from the medians of both sides' rates."""
    return Row(work, peer, statistics.median(ours), statistics.median(theirs))


def share_of_peak(rate: float, flop_per_token: float, peak_gflops: float) -> float:
    """`rate` tokens per second as a share of the machine's peak."""
    return rate * flop_per_token / (peak_gflops * 1e9)


def equal_tokens(found: Sequence[Ids], wanted: Sequence[Ids]) -> float:
    """The share of equal tokens, position by position; the longer of the two lengths counts."""
    total = sum(max(len(one), len(other)) for one, other in zip(found, wanted, strict=True))
    equal = sum(a == b for one, other in zip(found, wanted, strict=True) for a, b in zip(one, other, strict=False))
    return equal / total if total else 1.0
