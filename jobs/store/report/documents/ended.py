"""The documents of a job that have ended, while it runs: those with some ids, or those that a reader has not seen yet.

Workers record several shards at a time, and what was written first may be visible last. So a reader keeps the positions
that it has seen, not a moment: no document is missed, and none is read twice.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, literal_column, null, select

from jobs.position_ranges import PositionRanges
from jobs.store.database import Database
from jobs.store.ingest.rows_of_ids import rows_of_ids
from jobs.store.report.documents.export import (
    ExportedDocument,
    documents_with_results,
    exported,
    names_of_result,
)
from jobs.store.schema.results import ResultTable, results_of
from jobs.store.schema.states import ENDED_STATES
from jobs.store.schema.tables import Document, Job

POSITIONS_PER_QUERY = 500


@dataclass(frozen=True, slots=True)
class EndedDocuments:
    """Documents that a reader has not seen, and what it has seen with them."""

    documents: Sequence[ExportedDocument]
    seen: PositionRanges
    is_last: bool  # the job has ended, and there are no others


def documents_of_ids(database: Database, job_id: int, ids: Collection[str]) -> list[ExportedDocument]:
    """The documents of an existing job with these ids, by position; `waiting` where they have not ended. An id that the
    job does not have has none."""
    with database.reading() as connection:
        positions = [row.position for row in rows_of_ids(connection, job_id, sorted(ids), "d.position")]
        return list(_read(connection, job_id, positions))


def ended_documents(database: Database, job_id: int, seen: PositionRanges, limit: int = 500) -> EndedDocuments:
    """Up to `limit` documents of an existing job that have ended and are not among those `seen`, by position. One
    that a retry reopens is not read again."""
    with database.reading() as connection:
        state = connection.execute(select(Job.state).where(Job.id == job_id)).scalar_one()
        result = results_of(connection, job_id)
        positions: list[int] = []
        for start, stop in seen.gaps():
            positions += _ended(connection, result, job_id, start, stop, limit - len(positions))
            if len(positions) == limit:
                break
        documents = list(_read(connection, job_id, positions))
    is_last = state in ENDED_STATES and len(positions) < limit
    return EndedDocuments(documents, seen.with_positions(positions), is_last)


def _ended(
    connection: Connection, result: ResultTable, job_id: int, start: int, stop: int | None, limit: int
) -> list[int]:
    """The first `limit` positions of a range whose documents have ended. Of those that wait none is read, however many
    they are: the results by their key, the few documents with a status by the index of these."""

    def positions(table: Any, order: Any, *where: ColumnElement[bool]) -> Select[Any]:
        here = select(table.position).where(table.job_id == job_id, table.position >= start, *where)
        return (here if stop is None else here.where(table.position < stop)).order_by(order).limit(limit)

    by_index: ColumnElement[int] = literal_column(
        "+documents.position"
    )  # the sign keeps the key from being scanned for its order
    found = [
        *connection.execute(positions(result, result.position)).scalars(),
        *connection.execute(positions(Document, by_index, Document.status.is_not(None))).scalars(),
    ]
    return sorted(found)[:limit]


def _read(connection: Connection, job_id: int, positions: Sequence[int]) -> Iterator[ExportedDocument]:
    """The documents at these positions, ascending."""
    result, ordered = results_of(connection, job_id), sorted(positions)
    names = names_of_result(result)
    statement, _ = documents_with_results(job_id, result, null(), null())
    for start in range(0, len(ordered), POSITIONS_PER_QUERY):
        some = Document.position.in_(ordered[start : start + POSITIONS_PER_QUERY])
        for row in connection.execute(statement.where(some)):
            yield exported(row, names)
