"""The documents that conditions choose, by the database itself."""

from collections.abc import Sequence

from sqlalchemy import Connection, insert, select

from jobs.store.database import Database
from jobs.store.schema.tables import Document
from jobs.store.where.condition import Condition
from jobs.store.where.values import VIEW


def chosen(database: Database, written: Sequence[str | None], conditions: Sequence[str]) -> list[list[int]]:
    """For each condition, the positions of the documents that it chooses, among documents with these fields."""
    dialect = database.engine.dialect.name
    with database.engine.connect() as connection, connection.begin() as transaction:
        job_id = _insert(connection, written)
        found = []
        for condition in conditions:
            clause = Condition.parse(condition).clause(dialect)
            asked = select(VIEW.c.position).where(VIEW.c.job_id == job_id, clause).order_by(VIEW.c.position)
            found.append(list(connection.execute(asked).scalars()))
        transaction.rollback()
    return found


def _insert(connection: Connection, written: Sequence[str | None]) -> int:
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("PRAGMA defer_foreign_keys = ON")
    rows = [
        {"job_id": 7, "position": place, "numeric_id": False, "line": place + 1, "estimated_tokens": 1, "fields": text}
        for place, text in enumerate(written)
    ]
    connection.execute(insert(Document), rows)
    return 7
