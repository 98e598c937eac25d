"""The table of results of each task, and an outcome as a row of it.

A document has a result if and only if it has a row in the table of its job's task. Every query asks that one table, so
that ten million translations make no scoring job slower.

Knows: outcomes, tables of results, and which counters their columns feed. Does not know: leases, documents.
"""

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import ColumnElement, CompoundSelect, Connection, and_, exists, select
from sqlalchemy.orm import InstrumentedAttribute

from jobs import outcome
from jobs.outcome import Failed, Outcome
from jobs.store.schema.result_tables import RESULTS as RESULTS
from jobs.store.schema.result_tables import ResultTable as ResultTable
from jobs.store.schema.tables import Document, Job
from jobs.tasks.kind import Exported

Row = dict[str, Any]

# The columns of a result that an export reads.
EXPORTED: Mapping[ResultTable, tuple[InstrumentedAttribute[Any], ...]] = {
    table: tuple(
        getattr(table, name)
        for name in (*(one.name for one in table.kind.fields if one.export is not Exported.NEVER), "flags", "provider")
    )
    for table in RESULTS.values()
}

# Counters of a job that are sums over its results.
SUMMED: Mapping[ResultTable, Mapping[str, InstrumentedAttribute[int]]] = {
    table: {field.counter: getattr(table, field.name) for field in table.kind.fields if field.counter}
    for table in RESULTS.values()
}


def results_of(connection: Connection, job_id: int) -> ResultTable:
    """The table that holds the results of a job."""
    found: ResultTable = RESULTS[connection.execute(select(Job.task).where(Job.id == job_id)).scalar_one()]
    return found


def is_of_document(result: ResultTable) -> ColumnElement[bool]:
    """The condition that joins a result to its document."""
    return and_(result.job_id == Document.job_id, result.position == Document.position)


def is_open(result: ResultTable) -> tuple[ColumnElement[bool], ...]:
    """Conditions that a document is open: it has neither a status nor a result."""
    return (Document.status.is_(None), ~exists().where(is_of_document(result)))


def as_stored(document: Outcome) -> Row | Failed | outcome.Quarantined:
    """A result as a row of its table, without the columns that say whose it is and who answered. A result with a number
    that is not finite is returned as Failed (an engine should have found it): a NaN in a table would spoil every sum
    over it."""
    match document:
        case outcome.Translation():
            row = _translation(document)
            middle = document.via.log_prob if document.via else 0.0
            numbers = (document.log_prob or 0.0, middle, *(one.score for one in document.alternatives))
        case outcome.Score():
            row, numbers = _score(document), (document.nll_sum, *(token.log_prob or 0.0 for token in document.tokens))
        case outcome.Ranking():
            row, numbers = _ranking(document), tuple(one.score or 0.0 for one in document.candidates)
        case outcome.Generation():
            row, numbers = _generation(document), (document.log_prob or 0.0,)
        case _:
            return document
    if all(map(math.isfinite, numbers)):
        return row
    return Failed("non-finite", "the model gave numbers that are not finite (NaN or infinity)")


def _translation(translation: outcome.Translation) -> Row:
    alternatives = [{"translation": one.text, "score": one.score} for one in translation.alternatives]
    return {
        "text": translation.text,
        "log_prob": translation.log_prob,
        "num_segments": translation.num_segments,
        "num_reused": translation.num_reused,
        "num_source_tokens": translation.num_source_tokens,
        "num_target_tokens": translation.num_target_tokens,
        "flags": " ".join(translation.flags),
        "alternatives": _json(alternatives) if alternatives else None,
        "segments": _segments(translation.segments) if translation.segments else None,
        "unknown_share": translation.unknown_share,
        **_via(translation.via),
    }


def _via(via: outcome.Via | None) -> Row:
    if via is None:
        return _NO_VIA
    return {
        "via": via.text,
        "via_log_prob": via.log_prob,
        "via_target_tokens": via.num_target_tokens,
        "via_source_tokens": via.num_source_tokens,
        "via_segments": f"[{','.join([f'[{start},{stop}]' for start, stop in via.segments])}]",
    }


_NO_VIA: Row = dict.fromkeys(("via", "via_log_prob", "via_target_tokens", "via_source_tokens", "via_segments"))


def _segments(segments: Iterable[outcome.AlignedSegment]) -> str:
    """As JSON. (json.dumps takes three times as long, for every document.)"""
    return f"[{','.join([f'[{a},{b},{c},{d}]' for a, b, c, d in segments])}]"


def _score(score: outcome.Score) -> Row:
    tokens = [
        {"text": token.text, "start": token.start, "stop": token.stop, "log_prob": token.log_prob}
        for token in score.tokens
    ]
    return {
        "nll_sum": score.nll_sum,
        "num_tokens": score.num_tokens,
        "num_words": score.num_words,
        "num_bytes": score.num_bytes,
        "num_source_tokens": score.num_source_tokens,
        "flags": " ".join(score.flags),
        "token_scores": _json(tokens) if tokens else None,
        "num_reused": int(score.reused),
    }


def _ranking(ranking: outcome.Ranking) -> Row:
    return {
        "candidates": _json([_candidate(one) for one in ranking.candidates]),
        "num_candidates": len(ranking.candidates),
        "num_unscored": sum(one.score is None for one in ranking.candidates),
        "num_tokens": ranking.num_tokens,
        "num_computed": ranking.num_computed,
        "num_shared": ranking.num_shared,
        "flags": " ".join(ranking.flags),
    }


def _candidate(candidate: outcome.RankedCandidate) -> Row:
    """A candidate as JSON in the form of the export: keys without a value are left out, except the score."""
    row: Row = {"id": candidate.id, "rank": candidate.rank, "score": candidate.score}
    if candidate.first_score is not None:
        row["first_score"] = candidate.first_score
    if candidate.error is not None:
        row["error"] = candidate.error
    return row


def _generation(generation: outcome.Generation) -> Row:
    return {
        "text": generation.text,
        "log_prob": generation.log_prob,
        "finish": generation.finish.value,
        "num_prompt_tokens": generation.num_prompt_tokens,
        "num_shared": generation.num_shared,
        "num_new_tokens": generation.num_new_tokens,
        "flags": " ".join(generation.flags),
    }


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def in_range(table: Any, job_id: int, start: int, stop: int) -> ColumnElement[bool]:
    """The condition that a document or a result of a job is at one of the positions `start` to `stop` - 1."""
    return and_(table.job_id == job_id, table.position >= start, table.position < stop)


def open_positions(result: ResultTable, job_id: int, start: int, stop: int) -> CompoundSelect[Any]:
    """The positions of a range whose documents are open.

    Two reads by primary key, one subtracted from the other. A join is planned by statistics, which after a large submit
    are missing or old: PostgreSQL 15 then read all results of the job, for every shard.
    """
    undecided = select(Document.position).where(in_range(Document, job_id, start, stop), Document.status.is_(None))
    return undecided.except_(select(result.position).where(in_range(result, job_id, start, stop)))
