"""A copy of a whole database, as in a backup: every row, and the state of the id sequences."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Table, insert, text

from jobs.store.database import Database
from jobs.store.schema.tables import Base


@dataclass(frozen=True)
class Dump:
    """A copy of all tables, which `restore` puts back."""

    rows: dict[Table, list[dict[str, Any]]]
    numbers: dict[str, int]  # sequence -> the last id that it gave

    @classmethod
    def of(cls, database: Database) -> "Dump":
        with database.reading() as connection:
            rows = {
                table: [dict(row) for row in connection.execute(table.select()).mappings()]
                for table in Base.metadata.sorted_tables
            }
            return cls(rows, _numbers(connection))

    def restore(self, database: Database) -> None:
        """Replace the whole content of the database, as a restore of the file or of a `pg_dump` does."""
        with database.writing() as connection:
            for table in reversed(self.rows):
                connection.execute(table.delete())
            for table, rows in self.rows.items():
                if rows:
                    connection.execute(insert(table), rows)
            _renumber(connection, self.numbers)


def _numbers(connection: Connection) -> dict[str, int]:
    if connection.dialect.name == "sqlite":
        given = connection.execute(text("SELECT name, seq AS number FROM sqlite_sequence"))
    else:
        given = connection.execute(
            text("SELECT sequencename AS name, coalesce(last_value, 0) AS number FROM pg_sequences")
        )
    return {row.name: row.number for row in given}


def _renumber(connection: Connection, numbers: dict[str, int]) -> None:
    if connection.dialect.name == "sqlite":
        connection.execute(text("DELETE FROM sqlite_sequence"))
        change = "INSERT INTO sqlite_sequence VALUES (:name, :number)"
    else:
        change = "SELECT setval(CAST(:name AS regclass), greatest(:number, 1), :number > 0)"
    for name, number in numbers.items():
        connection.execute(text(change), {"name": name, "number": number})
