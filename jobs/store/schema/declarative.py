"""The declarative base of every table, and what their columns share."""

from datetime import datetime
from typing import Any, ClassVar

from sqlalchemy import BigInteger, Float, Integer, LargeBinary, MetaData, Text
from sqlalchemy.orm import DeclarativeBase, MappedColumn, mapped_column

from jobs.store.schema.clock import UtcDateTime

# SQLite generates numbers of rows only for the exact type INTEGER.
BigId = BigInteger().with_variant(Integer, "sqlite")


class Base(DeclarativeBase):
    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map: ClassVar = {
        str: Text,
        datetime: UtcDateTime,
        bytes: LargeBinary,
        float: Float,  # double precision on PostgreSQL
        int: BigInteger().with_variant(Integer, "sqlite"),
    }


def column(meaning: str, *args: Any, unit: str | None = None, **kwargs: Any) -> MappedColumn[Any]:
    """`mapped_column(*args, **kwargs)` with its meaning and, for a number, its unit: `tokens`, `s`, `nats`, `id` ...

    They are its line of docs/schema.md, as SQLAlchemy's `doc` and `info`, not `comment`: a comment would be part of
    PostgreSQL's DDL.
    """
    return mapped_column(*args, doc=meaning, info={"unit": unit}, **kwargs)
