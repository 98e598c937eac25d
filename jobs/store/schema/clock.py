"""The database's clock, and times in its columns. A worker's own clock never decides about a lease."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, DateTime, Dialect, Float, String, bindparam
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeDecorator, TypeEngine


class UtcDateTime(TypeDecorator[datetime]):
    """An aware datetime in UTC. SQLite stores `YYYY-MM-DD HH:MM:SS.mmm`, which sorts as text in the order of time."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(String(23) if dialect.name == "sqlite" else DateTime(timezone=True))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        if value is None or dialect.name != "sqlite":
            return value
        return value.astimezone(UTC).replace(tzinfo=None).isoformat(sep=" ", timespec="milliseconds")

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


class db_time(FunctionElement[datetime]):
    """The time by the database's clock, plus some seconds: `db_time(60)` is a minute from now."""

    type = UtcDateTime()
    inherit_cache = True
    name = "db_time"

    def __init__(self, seconds: float = 0.0) -> None:
        super().__init__(bindparam("seconds", float(seconds), type_=Float(), unique=True))


@compiles(db_time, "sqlite")
def _sqlite(element: db_time, compiler: SQLCompiler, **kw: Any) -> str:
    return f"strftime('%Y-%m-%d %H:%M:%f', 'now', {compiler.process(element.clauses, **kw)} || ' seconds')"


@compiles(db_time, "postgresql")
def _postgresql(element: db_time, compiler: SQLCompiler, **kw: Any) -> str:
    seconds = compiler.process(element.clauses, **kw)
    return f"(clock_timestamp() + make_interval(secs => CAST({seconds} AS double precision)))"


class seconds_between(FunctionElement[float]):
    """The seconds from one time to a later one; null where either is."""

    type = Float()
    inherit_cache = True
    name = "seconds_between"

    def __init__(self, start: ColumnElement[Any], stop: ColumnElement[Any]) -> None:
        super().__init__(start, stop)


@compiles(seconds_between, "sqlite")
def _seconds_on_sqlite(element: seconds_between, compiler: SQLCompiler, **kw: Any) -> str:
    start, stop = (compiler.process(argument, **kw) for argument in element.clauses)
    return f"((julianday({stop}) - julianday({start})) * 86400.0)"


@compiles(seconds_between, "postgresql")
def _seconds_on_postgresql(element: seconds_between, compiler: SQLCompiler, **kw: Any) -> str:
    start, stop = (compiler.process(argument, **kw) for argument in element.clauses)
    return f"CAST(EXTRACT(EPOCH FROM ({stop} - {start})) AS double precision)"
