"""
Measures of rankings by relevance judgements: nDCG, MRR, recall, computed by ir-measures, before and after reranking.

Knows: orders of ids. Does not know: files, tables, scores.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jobs.errors import SpecError
from jobs.near_names import meant
from jobs.requirements import install_command
from jobs.retrieval.qrels import Qrels

# nDCG: judged gains, discounted by log2(rank + 1) (trec_eval's). RR: reciprocal rank of the first relevant document.
# R: share of the relevant documents. A document judged 1 or more is relevant.
MEASURES = ("nDCG@10", "RR@10", "R@10", "R@100")

Orders = Mapping[str, Sequence[str]]  # query -> documents, best first


@dataclass(frozen=True, slots=True)
class Measured:
    """One measure before and after reranking, each the mean over the judged queries that are ranked."""

    measure: str
    before: float
    after: float


def compare(qrels: Qrels, before: Orders, after: Orders, measures: Sequence[str] = MEASURES) -> list[Measured]:
    """Each measure before and after reranking; raises what `evaluate` raises."""
    first, second = evaluate(qrels, before, measures), evaluate(qrels, after, measures)
    return [Measured(measure, first[measure], second[measure]) for measure in measures]


def evaluate(qrels: Qrels, orders: Orders, measures: Sequence[str] = MEASURES) -> dict[str, float]:
    """The mean of each measure over the judged queries that are ranked, as trec_eval and BEIR do it: a judged query
    without a ranking and a ranked one without judgements are left out; an empty ranking counts as 0. Raises what
    `by_query` raises, and SpecError where no judged query has a ranking."""
    found = by_query(qrels, orders, measures)
    if not any(orders[query] for query in judged_queries(qrels, orders)):
        raise SpecError("none of the ranked queries has judgements; are they of this corpus?")
    return {measure: sum(values.values()) / len(values) for measure, values in found.items()}


def judged_queries(qrels: Qrels, orders: Orders) -> list[str]:
    """The ranked queries that have judgements."""
    return [query for query in orders if query in qrels]


def by_query(qrels: Qrels, orders: Orders, measures: Sequence[str] = MEASURES) -> dict[str, dict[str, float]]:
    """Each measure of each query that has a ranking and judgements; 0 where the ranking is empty. Raises SpecError
    where ir-measures is not installed or does not know a measure."""
    ir_measures = _ir_measures()
    queries = judged_queries(qrels, orders)
    # By rank, not by score, so that nothing depends on how ties are broken.
    run = {query: {document: float(-place) for place, document in enumerate(orders[query])} for query in queries}
    names = {_parse(ir_measures, measure): measure for measure in measures}
    found: dict[str, dict[str, float]] = {measure: dict.fromkeys(queries, 0.0) for measure in measures}
    judged = {query: qrels[query] for query in queries}
    try:
        for one in ir_measures.iter_calc(list(names), judged, {query: order for query, order in run.items() if order}):
            found[names[one.measure]][one.query_id] = float(one.value)
    except ValueError as error:  # measures that need another package
        raise SpecError(f"{', '.join(measures)} cannot be measured: {error}") from None
    return found


def _ir_measures() -> Any:
    try:
        import ir_measures
    except ImportError:
        raise SpecError(
            "rankings are measured with the package ir-measures, which is not installed: "
            + install_command("ir-measures")
        ) from None
    return ir_measures


def _parse(ir_measures: Any, measure: str) -> Any:
    try:
        return ir_measures.parse_measure(measure)
    except (NameError, ValueError, SyntaxError, AssertionError) as error:
        near = meant(measure.partition("@")[0], ir_measures.measures.registry)
        raise SpecError(
            f"there is no measure {measure!r}{near} ({error}); known are nDCG@10, RR@10, R@100 ..."
        ) from None
