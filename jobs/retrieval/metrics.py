"""
Measures of rankings by relevance judgements: nDCG, MRR, recall, computed by ir-measures, before and after reranking.

Judgements (qrels) say which documents answer a query, and how well:

    TREC   qid 0 docid relevance            separated by white space
    BEIR   query-id  corpus-id  score       separated by tabs, below a header

Knows: orders of ids, files of judgements. Does not know: tables, scores.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobs.corpus.unpacking import LineFile
from jobs.documents import quoted
from jobs.errors import CorpusError, SpecError, meant
from jobs.system.requirements import install_command

Qrels = dict[str, dict[str, int]]  # query -> document -> relevance; 0 or less: not relevant


def read_qrels(path: Path) -> Qrels:
    """The judgements in a file. Raises CorpusError for a line that is not a judgement, and for an empty file."""
    file = LineFile(path)
    qrels: Qrels = {}
    for number, line in file:
        try:
            *ids, relevance = line.decode().split()
            query_id, document_id = ids if len(ids) == 2 else (ids[0], ids[2])
            if len(ids) > 3:
                raise ValueError
            qrels.setdefault(query_id, {})[document_id] = _relevance(relevance)
        except UnicodeDecodeError:
            raise file.error(number, "it is not UTF-8; save the judgements as UTF-8") from None
        except (ValueError, IndexError):
            if number == 1 and line.count(b"\t") == 2:  # the header of BEIR
                continue
            what = f"{quoted(line.strip())} is not a judgement; write `qid 0 docid relevance`, or BEIR's three columns"
            raise file.error(number, what) from None
    if not qrels:
        raise CorpusError(f"{path}: there is no judgement in it; is it the right file?")
    return qrels


def _relevance(written: str) -> int:
    """A whole number, also as 1.0. Raises ValueError for any other text."""
    whole, _, fraction = written.partition(".")
    if fraction.strip("0"):
        raise ValueError
    return int(whole)


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
    run = {query: {document: float(-rank) for rank, document in enumerate(orders[query])} for query in queries}
    names = {_parse(ir_measures, measure): measure for measure in measures}
    found: dict[str, dict[str, float]] = {measure: dict.fromkeys(queries, 0.0) for measure in measures}
    judged = {query: qrels[query] for query in queries}
    try:
        for metric in ir_measures.iter_calc(
            list(names), judged, {query: order for query, order in run.items() if order}
        ):
            found[names[metric.measure]][metric.query_id] = float(metric.value)
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
