"""
Rankings of two jobs against relevance judgements, with confidence intervals.

Each interval has 95 % and comes from a percentile bootstrap over the queries (Efron and Tibshirani 1993, chapter 13):
the queries that both jobs ranked are a sample of those that people ask. The interval of the difference is paired: the
two values of a query stay together. Where it does not hold 0, the difference is not due to the choice of these queries.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jobs.errors import SpecError
from jobs.retrieval.metrics import MEASURES, Qrels, by_query
from jobs.system.requirements import install_command

RESAMPLES = 2000
BATCH = 100  # resamples that are computed at a time: bounds the memory
SEED = 12345  # the same judgements and rankings always have the same intervals


@dataclass(frozen=True, slots=True)
class ConfidenceInterval:
    """A mean with its 95 % confidence interval; None for a single query."""

    mean: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class JudgedMeasure:
    """One measure of both jobs, over the judged queries that both ranked."""

    measure: str
    queries: int
    judged_queries: int  # whether ranked or not
    a: ConfidenceInterval
    b: ConfidenceInterval
    difference: ConfidenceInterval  # B minus A

    @property
    def is_significant(self) -> bool:
        """Whether the confidence interval of the difference does not contain 0."""
        low, high = self.difference.low, self.difference.high
        return low is not None and high is not None and not low <= 0 <= high


class JudgedRankings:
    """Collects the orders of judged queries."""

    def __init__(self, qrels: Qrels, measures: Sequence[str] = ()) -> None:
        self._qrels = qrels
        self._measures = measures or MEASURES
        self._a: dict[str, Sequence[str]] = {}
        self._b: dict[str, Sequence[str]] = {}

    def add(self, query_id: str, a: Sequence[str], b: Sequence[str]) -> None:
        if query_id in self._qrels:
            self._a[query_id], self._b[query_id] = a, b

    def result(self) -> list[JudgedMeasure]:
        """Every measure. Raises SpecError where ir-measures is missing, or no query that both ranked is judged."""
        if not self._a:
            raise SpecError("no query that both jobs ranked has judgements; are they of this corpus?")
        first = by_query(self._qrels, self._a, self._measures)
        second = by_query(self._qrels, self._b, self._measures)
        judged = len(self._qrels)
        return [_measured(measure, judged, first[measure], second[measure]) for measure in self._measures]


def _measured(measure: str, judged: int, a: Mapping[str, float], b: Mapping[str, float]) -> JudgedMeasure:
    queries = sorted(a)
    first, second = [a[query] for query in queries], [b[query] for query in queries]
    differences = [theirs - mine for mine, theirs in zip(first, second, strict=True)]
    return JudgedMeasure(measure, len(queries), judged, *map(bootstrap_mean, (first, second, differences)))


def bootstrap_mean(values: Sequence[float]) -> ConfidenceInterval:
    """The mean of the values, and its interval."""
    mean = sum(values) / len(values)
    if len(values) < 2:
        return ConfidenceInterval(mean, None, None)
    if min(values) == max(values):
        return ConfidenceInterval(mean, mean, mean)
    found = _stats().bootstrap(
        (values,),
        lambda sample, axis: sample.mean(axis=axis),
        n_resamples=RESAMPLES,
        batch=BATCH,
        method="percentile",
        random_state=SEED,
    )
    return ConfidenceInterval(mean, float(found.confidence_interval.low), float(found.confidence_interval.high))


def _stats() -> Any:
    try:
        from scipy import stats
    except ImportError:
        raise SpecError(
            "confidence intervals are computed with the package scipy, which is not installed: "
            + install_command("scipy")
        ) from None
    return stats
