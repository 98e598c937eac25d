"""Columns of a parquet export: their types, and which values fit into them.

A field of the corpus has the narrowest type that holds every value of it among the first documents:

    bool     int64     double (also integers up to 2^53)     string     json: text, any JSON value

A field that is always null there, or holds lists, objects, several types, or numbers that neither int64 nor double
holds exactly, is json. A later value that does not fit is no reason to lose it: its cell is null, and the value is in
the column `fields`.

Knows: JSON values, types. Does not know: documents, files.
"""

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import orjson

from jobs.corpus.parquet import JSON_MARK
from jobs.text.json_numbers import digits, is_integer

if TYPE_CHECKING:
    import pyarrow as pa

EXACT = 1 << 53  # a double holds every integer up to here
LOWEST, HIGHEST = -(1 << 63), (1 << 63) - 1


class CellType(enum.StrEnum):
    """The type of a column."""

    BOOL = "bool"
    INT = "int64"
    FLOAT = "double"
    TEXT = "string"
    TEXTS = "list of strings"
    JSON = "json"
    RANKING = "list of candidates"


@dataclass(frozen=True, slots=True)
class TypedColumn:
    """A column, and the type of its values."""

    name: str
    kind: CellType


class Misfit:
    """Stands for a value that its column cannot hold."""


MISFIT = Misfit()


def infer(documents: Iterable[Mapping[str, Any]]) -> list[TypedColumn]:
    """A column for each field of these documents, in the order in which they occur."""
    found: dict[str, set[CellType]] = {}
    for fields in documents:
        for name, value in fields.items():
            kinds = found.setdefault(name, set())
            if value is not None:
                kinds.add(_kind_of(value))
    return [TypedColumn(name, _kind_for(kinds)) for name, kinds in found.items()]


def fit(kind: CellType, value: Any) -> Any:
    """The value as a column of this kind holds it, or MISFIT."""
    if value is None:
        return None
    if kind is CellType.JSON:
        return orjson.dumps(value).decode()
    own = _kind_of(value)
    if own is kind:
        return _number(value) if type(value) is orjson.Fragment else value
    if kind is CellType.FLOAT and own is CellType.INT and abs(number := _number(value)) <= EXACT:
        return float(number)
    return MISFIT


def schema(columns: Iterable[TypedColumn]) -> "pa.Schema":
    """The Arrow schema of these columns."""
    import pyarrow as pa

    candidate = pa.struct(
        {
            "id": pa.string(),
            "rank": pa.int64(),
            "score": pa.float64(),
            "first_score": pa.float64(),
            "error": pa.string(),
        }
    )
    types = {
        CellType.BOOL: pa.bool_(),
        CellType.INT: pa.int64(),
        CellType.FLOAT: pa.float64(),
        CellType.TEXT: pa.string(),
        CellType.TEXTS: pa.list_(pa.string()),
        CellType.JSON: pa.string(),
        CellType.RANKING: pa.list_(candidate),
    }
    return pa.schema(
        [
            pa.field(column.name, types[column.kind], metadata=JSON_MARK if column.kind is CellType.JSON else None)
            for column in columns
        ]
    )


def _kind_of(value: Any) -> CellType:
    if isinstance(value, str):
        return CellType.TEXT
    if isinstance(value, bool):
        return CellType.BOOL
    if type(value) is orjson.Fragment:
        value = _number(value)
    if isinstance(value, int):
        return CellType.INT if LOWEST <= value <= HIGHEST else CellType.JSON
    return CellType.FLOAT if isinstance(value, float) else CellType.JSON


def _kind_for(kinds: set[CellType]) -> CellType:
    if kinds == {CellType.INT, CellType.FLOAT}:
        return CellType.FLOAT
    return next(iter(kinds)) if len(kinds) == 1 else CellType.JSON


def _number(value: Any) -> Any:
    """A number as int or float, where that is the same number to the last digit; else as it is."""
    if type(value) is not orjson.Fragment:
        return value
    written = digits(value)
    if is_integer(written) and written != "-0":
        return int(written) if len(written) <= len(str(LOWEST)) else value
    number = float(written)
    if abs(number) == float("inf") or Decimal(written) != Decimal(repr(number)):
        return value
    return number
