"""The table of results of each task, and an outcome as a row of it.

A document has a result if and only if it has a row in the table of its job's task. Every query asks that one table, so
that ten million translations make no scoring job slower.

Knows: outcomes, tables of results, and which counters their columns feed. Does not know: leases, documents.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import BindParameter, ColumnElement, CompoundSelect, Connection, and_, exists, select
from sqlalchemy.orm import InstrumentedAttribute

from jobs import outcome
from jobs.outcome import Failed, Outcome
from jobs.store.schema.result_tables import RESULTS as RESULTS
from jobs.store.schema.result_tables import ResultTable as ResultTable
from jobs.store.schema.tables import Document, Job
from jobs.tasks.kind import Exported, NotFinite
from jobs.tasks.kinds import OF_OUTCOMES

Row = dict[str, Any]
Number = int | BindParameter[int]  # of a job or a position; a parameter in a statement that is kept

# The columns of a result that an export reads.
EXPORTED: Mapping[ResultTable, tuple[InstrumentedAttribute[Any], ...]] = {
    table: tuple(
        getattr(table, name)
        for name in (
            *(field.name for field in table.kind.fields if field.export is not Exported.NEVER),
            "flags",
            "provider",
        )
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
    if isinstance(document, Failed | outcome.Quarantined):
        return document
    try:
        return OF_OUTCOMES[type(document)].row_of(document)
    except NotFinite:
        return Failed("non-finite", "the model gave numbers that are not finite (NaN or infinity)")


def in_range(table: Any, job_id: Number, start: Number, stop: Number) -> ColumnElement[bool]:
    """The condition that a document or a result of a job is at one of the positions `start` to `stop` - 1."""
    return and_(table.job_id == job_id, table.position >= start, table.position < stop)


def open_positions(result: ResultTable, job_id: Number, start: Number, stop: Number) -> CompoundSelect[Any]:
    """The positions of a range whose documents are open.

    Two reads by primary key, one subtracted from the other. A join is planned by statistics, which after a large submit
    are missing or old: PostgreSQL 15 then read all results of the job, for every shard.
    """
    undecided = select(Document.position).where(in_range(Document, job_id, start, stop), Document.status.is_(None))
    return undecided.except_(select(result.position).where(in_range(result, job_id, start, stop)))
