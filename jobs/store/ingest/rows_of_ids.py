"""The documents of a job that have one of these ids."""

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, Row

IDS_PER_QUERY = 500


def rows_of_ids(
    connection: Connection, job_id: int, ids: Sequence[str | None], columns: str
) -> Iterator[Row[tuple[Any, ...]]]:
    """`external_id` and these columns (`d.line, d.text`) of the documents with these ids. One index look-up per id: for
    `external_id IN (...)` with ten ids or more, SQLite scans all documents of the job instead."""
    placeholder = "?" if connection.dialect.paramstyle == "qmark" else "%s"
    for start in range(0, len(ids), IDS_PER_QUERY):
        some = tuple(ids[start : start + IDS_PER_QUERY])
        yield from connection.exec_driver_sql(
            f"WITH wanted (id) AS (VALUES {', '.join([f'({placeholder})'] * len(some))})"
            f" SELECT d.external_id, {columns} FROM wanted CROSS JOIN documents d"
            f" WHERE d.job_id = {job_id:d} AND d.external_id = wanted.id",
            some,
        )
