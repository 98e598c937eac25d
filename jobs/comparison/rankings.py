"""How far the rankings of two jobs agree."""

from collections.abc import Sequence
from dataclasses import dataclass

from jobs.comparison.bins import Bin, FixedBins
from jobs.comparison.quantiles import Sketch
from jobs.comparison.rank_correlation import kendall_tau, mean_rank_change, overlap_at, rank_biased_overlap
from jobs.text.formatting import count, counted, figure, percent

BORDERS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.999_999, 1.0)  # of the histogram of RBO


@dataclass(frozen=True, slots=True)
class RankingAgreement:
    """The queries that both jobs ranked; each mean is over queries."""

    documents: int
    identical: int  # the same candidates in the same order
    same_top: int  # the same candidate first
    other_candidates: int  # queries whose candidates are not the same set in both
    overlap_at_10: float | None
    rbo: float | None
    kendall_tau: float | None  # over queries with at least two common candidates
    rank_change: float | None  # ranks that a candidate moves
    quantiles: dict[str, float | None]  # of RBO
    histogram: Sequence[Bin]  # of RBO

    @property
    def sentence(self) -> str:
        if self.rbo is None or self.overlap_at_10 is None:
            return "No query was ranked in both jobs."
        if self.identical == self.documents:
            return f"None of {counted(self.documents, 'ranking')} differs."
        tau = "" if self.kendall_tau is None else f", Kendall's tau {figure(self.kendall_tau)}"
        return (
            f"{count(self.identical)} of {counted(self.documents, 'query')} have the same order and "
            f"{count(self.same_top)} the same first candidate; the first 10 share {percent(self.overlap_at_10)} on "
            f"average. Mean rank-biased overlap {figure(self.rbo)}{tau}; a candidate moves by "
            f"{figure(self.rank_change or 0)} ranks."
        )


class RankingsCompared:
    """Collects pairs of orders, one query after the other."""

    def __init__(self) -> None:
        self._identical = self._same_top = self._other_candidates = 0
        self._overlap, self._rbo, self._tau, self._change = Sketch(), Sketch(), Sketch(), Sketch()
        self._bins = FixedBins(BORDERS)

    def add(self, a: Sequence[str], b: Sequence[str]) -> float:
        """Count a query, given the ids of its candidates, best first. Return 1 - RBO, by which differences are
        ordered."""
        is_same = a == b
        self._identical += is_same
        self._same_top += a[:1] == b[:1]
        self._other_candidates += not is_same and set(a) != set(b)
        rbo = 1.0 if is_same else min(1.0, rank_biased_overlap(a, b))
        self._rbo.add(rbo)
        self._bins.add(rbo)
        self._overlap.add(overlap_at(a, b))
        for sketch, value in ((self._tau, kendall_tau(a, b)), (self._change, mean_rank_change(a, b))):
            if value is not None:
                sketch.add(value)
        return 1 - rbo

    def result(self) -> RankingAgreement:
        return RankingAgreement(
            documents=self._rbo.count,
            identical=self._identical,
            same_top=self._same_top,
            other_candidates=self._other_candidates,
            overlap_at_10=self._overlap.mean,
            rbo=self._rbo.mean,
            kendall_tau=self._tau.mean,
            rank_change=self._change.mean,
            quantiles={name: self._rbo.quantile(share) for name, share in QUANTILES.items()},
            histogram=self._bins.bins(),
        )


QUANTILES = {"min": 0.0, "p5": 0.05, "median": 0.5}
