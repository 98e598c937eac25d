"""The values in a condition as SQL expressions, by kind; and the columns of `v_documents` by kind."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import ColumnElement, column, false, func, table

from jobs.store.where.tree import Name
from jobs.tasks.kind import Type
from jobs.tasks.kinds import RESULT_COLUMNS


def _named(kind: Type) -> tuple[str, ...]:
    return tuple(column.name for column in RESULT_COLUMNS.values() if column.is_condition and column.type is kind)


# The columns of v_documents that a condition may use, by type: columns of the document, then columns of its result.
INTEGERS = (*("position", "line", "shard_id", "epoch", "worker_id"), *_named(Type.INTEGER))
DOUBLES = _named(Type.FLOAT)
JSONS = ("fields", *_named(Type.JSON))
TEXTS = (*("id", "status", "text", "route", "flags", "error_code", "error", "provider"), *_named(Type.TEXT), *JSONS)
MOMENT = "finished_at"
COLUMNS = (*INTEGERS, *DOUBLES, *TEXTS, MOMENT)
VIEW = table("v_documents", *map(column, ("job_id", *COLUMNS)))

Column = ColumnElement[Any]


def is_column(name: Name) -> bool:
    """Whether a name means a column, and not a field."""
    key = name.path[0] if name.is_quoted else name.path[0].lower()
    return not name.is_field and len(name.path) == 1 and key in VIEW.c and key != "job_id"


@dataclass(frozen=True, slots=True)
class Value:
    """An expression for each kind that the value may have. Of the first three at most one is not null in a row."""

    number: Column | None = None
    text: Column | None = None
    truth: Column | None = None
    is_null: Column = field(default_factory=false)
    weight: int = 1  # number of columns and constants in the SQL
    written: str | None = None  # a constant, as it was written
    is_text_column: bool = False
    is_integer: bool = False  # the number is an integer, which decides what `/` means
    stored: str = ""  # the number's type in PostgreSQL: "double" or "numeric", unless it is an integer or a constant

    @property
    def kinds(self) -> str:
        named = {"a number": self.number, "a text": self.text, "true or false": self.truth}
        return " or ".join(kind for kind, expression in named.items() if expression is not None) or "null"


def first_of(expressions: list[Column]) -> Column:
    """SQL for the value's expression that is not null."""
    return expressions[0] if len(expressions) == 1 else func.coalesce(*expressions)


def required(expression: Column | None) -> Column:
    """The expression, for a caller who knows that the value has it."""
    assert expression is not None
    return expression


def weight_of(values: Sequence[Value]) -> int:
    return sum(value.weight for value in values)


def truth_of(expression: Column, *values: Value, is_null: Column | None = None, weight: int = 0) -> Value:
    is_null = expression.is_(None) if is_null is None else is_null
    return Value(truth=expression, is_null=is_null, weight=weight + weight_of(values))


def number_of(expression: Column, *values: Value, is_integer: bool = False, stored: str = "numeric") -> Value:
    return Value(
        number=expression,
        is_null=expression.is_(None),
        weight=1 + weight_of(values),
        is_integer=is_integer,
        stored=stored,
    )


def text_of(expression: Column, *values: Value) -> Value:
    return Value(text=expression, is_null=expression.is_(None), weight=1 + weight_of(values))
