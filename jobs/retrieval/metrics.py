"""
How good rankings are, by judgements: nDCG, MRR, recall, as ir-measures has them, before reranking and after.

Knows: orders of ids. Does not know: files, tables, scores.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jobs.errors import SpecError
from jobs.requirements import install_command
from jobs.retrieval.qrels import Qrels

# Gains as they are judged, discounted by log2(rank + 1) (trec_eval's); the reciprocal rank of the first relevant one;
# the share of the relevant ones. Relevant is what is judged 1 or more.
MEASURES = ("nDCG@10", "RR@10", "R@10", "R@100")

Orders = Mapping[str, Sequence[str]]  # query -> documents, best first


@dataclass(frozen=True, slots=True)
class Measured:
    """One measure before and after, each the mean over the queries that are judged."""

    measure: str
    before: float
    after: float


def compare(qrels: Qrels, before: Orders, after: Orders, measures: Sequence[str] = MEASURES) -> list[Measured]:
    """What reranking gained; raises what `evaluate` raises."""
    first, second = evaluate(qrels, before, measures), evaluate(qrels, after, measures)
    return [Measured(measure, first[measure], second[measure]) for measure in measures]


def evaluate(qrels: Qrels, orders: Orders, measures: Sequence[str] = MEASURES) -> dict[str, float]:
    """The mean of each measure over all queries that are judged: one that is not ranked counts 0, as `trec_eval -c`
    has it, and one that is not judged counts nothing. Raise SpecError where ir-measures is missing, or cannot tell
    what a measure is, or no query that is judged is ranked.
    """
    ir_measures = _ir_measures()
    # The place decides, not a score: so nothing depends on how ties are broken.
    run = {
        query: {document: float(-place) for place, document in enumerate(order)}
        for query, order in orders.items()
        if order and query in qrels
    }
    if not run:
        raise SpecError("the judgements are of none of the queries that were ranked; are they of this corpus?")
    parsed = {measure: _parse(ir_measures, measure) for measure in measures}
    try:
        found = ir_measures.calc_aggregate(list(parsed.values()), qrels, run)
    except ValueError as error:  # what another package would have to measure
        raise SpecError(f"{', '.join(measures)} cannot be measured: {error}") from None
    return {measure: float(found[parsed[measure]]) for measure in measures}


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
        raise SpecError(f"there is no measure {measure!r} ({error}); known are nDCG@10, RR@10, R@100 ...") from None
