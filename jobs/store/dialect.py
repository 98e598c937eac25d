"""What each database says in its own words."""

from typing import Any

from sqlalchemy import Connection
from sqlalchemy.dialects import postgresql, sqlite


def insert_or_ignore(connection: Connection, table: Any) -> Any:
    """INSERT ... ON CONFLICT DO NOTHING: the first writer wins."""
    insert = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    return insert(table).on_conflict_do_nothing()
