"""
The counters and rollups of jobs as they are now: what was folded, and the deltas that were not.

    current_step_sums   =   step_sums   +   deltas.sums -> 'step_sums'          a view for each table

Reports and the public views read these, never the tables alone. On SQLite, where a batch is added to the tables at
once, they are the tables. They are created beside the public views, and people do not query them.
"""

from functools import cache
from typing import TypeVar

from sqlalchemy import Column, Connection, MetaData, Table, Text, text
from sqlalchemy.orm import aliased

from jobs.store.connection.dialect import POSTGRESQL
from jobs.store.schema.declarative import Base
from jobs.store.schema.delta_table import Delta
from jobs.store.schema.provider_tables import HandoverCounts, JobProvider
from jobs.store.schema.rollup_tables import SUMS
from jobs.store.schema.tables import JobCounts

SomeTable = TypeVar("SomeTable", bound=Base)
ROLLUPS: tuple[type[Base], ...] = (*SUMS, JobProvider, HandoverCounts)
ALL: tuple[type[Base], ...] = (JobCounts, *ROLLUPS)
COUNTED = tuple(column.name for column in Delta.__table__.columns if column.name not in ("id", "job_id", "sums"))


@cache
def current(table: type[SomeTable]) -> type[SomeTable]:
    """`JobCounts` or a rollup as it is now, for statements that read it in place of the table."""
    columns = (Column(column.name, column.type) for column in table.__table__.columns)
    view = Table(view_of(table), MetaData(), *columns)
    found: type[SomeTable] = aliased(table, view, adapt_on_names=True)
    return found


def view_of(table: type[Base]) -> str:
    return f"current_{table.__tablename__}"


def create_current_views(connection: Connection) -> None:
    """Create every view; none may exist yet."""
    is_sqlite = connection.dialect.name == "sqlite"
    for table in ALL:
        if is_sqlite:
            definition = f"SELECT * FROM {table.__tablename__}"
        else:
            definition = _counts() if table is JobCounts else _sums(table)
        connection.execute(text(f"CREATE VIEW {view_of(table)} AS {definition}"))


def drop_current_views(connection: Connection) -> None:
    for table in ALL:
        connection.execute(text(f"DROP VIEW IF EXISTS {view_of(table)}"))


def rows_of_deltas(table: type[Base], deltas: str) -> str:
    """SQL of PostgreSQL for a FROM: the rows that `deltas`, whose column `sums` is jsonb, add to a rollup, named
    `added`."""
    types = ", ".join(
        f"{column.name} {column.type.compile(POSTGRESQL)}"
        for column in table.__table__.columns
        if column.name != "job_id"
    )
    return f"{deltas} CROSS JOIN LATERAL jsonb_to_recordset({deltas}.sums -> '{table.__tablename__}') AS added({types})"


def summed(table: type[Base], source: str, order: str) -> str:
    """SQL of PostgreSQL for a SELECT from `source` that is grouped by the key of a rollup: its columns but for
    `job_id`; numbers are added, and of other texts the first by `order` is taken."""
    return ", ".join(
        f"{source}.{column.name}"
        if column.primary_key
        else f"(array_agg({source}.{column.name} ORDER BY {order}))[1] AS {column.name}"
        if isinstance(column.type, Text)
        else f"CAST(sum({source}.{column.name}) AS {column.type.compile(POSTGRESQL)}) AS {column.name}"
        for column in table.__table__.columns
        if column.name != "job_id"
    )


def key_of(table: type[Base]) -> list[str]:
    """The columns of a rollup's key but for `job_id`."""
    return [column.name for column in table.__table__.primary_key if column.name != "job_id"]


def _counts() -> str:
    columns = ", ".join(
        f"folded.{column.name} + added.{column.name} AS {column.name}"
        if column.name in COUNTED
        else f"folded.{column.name}"
        for column in JobCounts.__table__.columns
    )
    sums = ", ".join(f"CAST(COALESCE(sum({name}), 0) AS bigint) AS {name}" for name in COUNTED)
    return (
        f"SELECT {columns} FROM job_counts AS folded CROSS JOIN LATERAL "
        f"(SELECT {sums} FROM deltas WHERE deltas.job_id = folded.job_id) AS added"
    )


def _sums(table: type[Base]) -> str:
    """GROUP BY has `job_id`, so a condition on it reaches both tables (a test reads the plan)."""
    names = [column.name for column in table.__table__.columns if column.name != "job_id"]
    of_deltas = "(SELECT id, job_id, CAST(sums AS jsonb) AS sums FROM deltas) AS delta"
    added = rows_of_deltas(table, "delta").replace("delta CROSS", f"{of_deltas} CROSS", 1)
    return (
        f"SELECT job_id, {summed(table, 'parts', 'parts.delta_id')} FROM ("
        f"SELECT CAST(0 AS bigint) AS delta_id, job_id, {', '.join(names)} FROM {table.__tablename__} "
        f"UNION ALL SELECT delta.id, delta.job_id, {', '.join(f'added.{name}' for name in names)} FROM {added}"
        f") AS parts GROUP BY {', '.join(('job_id', *key_of(table)))}"
    )
