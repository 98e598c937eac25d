"""A column of a table, declared together with its line of docs/schema.md.

The description is SQLAlchemy's `doc` and `info`, not `comment`: a comment would be part of PostgreSQL's DDL.
"""

from typing import Any

from sqlalchemy.orm import MappedColumn, mapped_column


def column(meaning: str, *args: Any, unit: str | None = None, **kwargs: Any) -> MappedColumn[Any]:
    """`mapped_column(*args, **kwargs)` with its meaning and, for a number, its unit: `tokens`, `s`, `nats`, `id` ..."""
    return mapped_column(*args, doc=meaning, info={"unit": unit}, **kwargs)
