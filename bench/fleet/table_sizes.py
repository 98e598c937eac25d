"""What a document takes on the disk: tables with their indexes, from a database that workers have filled."""

from typing import Any

import psycopg

SIZES = """
SELECT relname, pg_table_size(oid), pg_indexes_size(oid) FROM pg_class
WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace
"""
SUBMITTED = ("documents", "shards")  # by all documents; the others by those that have a result
SMALLEST = 0.5  # bytes a document: what takes less is not listed


def per_document(url: str) -> dict[str, Any]:
    """Bytes of each table and of its indexes, by the documents that have rows there; empty without results."""
    with psycopg.connect(url.replace("+psycopg", "")) as connection:
        documents, results = _count(connection, "documents"), _count(connection, "translations")
        if not results:
            return {}
        sizes = {}
        for name, table, indexes in connection.execute(SIZES):
            rows = documents if name in SUBMITTED else results
            if table + indexes >= SMALLEST * rows:
                sizes[name] = f"{table / rows:.0f} + {indexes / rows:.0f}"
        return {"bytes/document": sizes}


def _count(connection: psycopg.Connection, table: str) -> int:
    row = connection.execute(f"SELECT count(*) FROM {table}").fetchone()  # type: ignore[arg-type]  # names of this module
    assert row is not None
    return int(row[0])
