"""Types of fields that JSON does not have: noted when rows are submitted, given back with the results.

Of dicts the types of Python; of a table the types of Arrow. Both stand in the job's `reading`, under `types`.
"""

import base64
import uuid
import zlib
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import orjson

PYTHON, ARROW = "python", "arrow"  # the keys of the two forms
UNKNOWN = ""  # a field with values of several such types, or also of JSON's own
_LOOKED_AT = 1000  # rows whose values are looked at one by one: orjson writes a UUID without asking

_TYPES: Mapping[type, str] = {
    datetime: "datetime",
    date: "date",
    time: "time",
    timedelta: "timedelta",
    Decimal: "decimal",
    bytes: "bytes",
    uuid.UUID: "uuid",
}
_READ: Mapping[str, Callable[[Any], Any]] = {
    "datetime": datetime.fromisoformat,
    "date": date.fromisoformat,
    "time": time.fromisoformat,
    "timedelta": lambda value: timedelta(seconds=float(value)),
    "decimal": lambda value: Decimal(str(value)),
    "bytes": base64.b64decode,
    "uuid": uuid.UUID,
}


class JsonTypes:
    """Writes dicts as JSON, and notes which of their fields have values that JSON has no type for.

    Dates and times are ISO 8601 text, a duration its seconds, a Decimal the text of its digits, bytes Base64 text.
    """

    def __init__(self) -> None:
        self._found: dict[str, str] = {}
        self._has_special = False
        self._rows = 0

    def dump(self, row: dict[str, Any]) -> bytes:
        """The row as JSON, without a line end. Raises TypeError for a value that has no form in it."""
        self._has_special = False
        written = orjson.dumps(row, default=self._default, option=_OPTIONS)
        self._rows += 1
        if self._has_special or self._rows <= _LOOKED_AT:
            for name, value in row.items():
                if (kind := _TYPES.get(type(value))) and self._found.setdefault(name, kind) != kind:
                    self._found[name] = UNKNOWN
        return written

    @property
    def found(self) -> dict[str, Any] | None:
        """What was noted; None: JSON has a type for every field."""
        known = {name: kind for name, kind in self._found.items() if kind}
        return {PYTHON: known} if known else None

    def _default(self, value: Any) -> Any:
        self._has_special = True
        if isinstance(value, datetime | date | time):
            return value.isoformat()
        if isinstance(value, timedelta):
            return value.total_seconds()
        if isinstance(value, Decimal):
            return str(value)
        if isinstance(value, bytes | bytearray | memoryview):
            return base64.b64encode(value).decode()
        if isinstance(value, set | frozenset):
            return sorted(value)
        raise TypeError(f"{type(value).__name__} is no value of JSON")


_OPTIONS = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_SERIALIZE_NUMPY


def python_types(types: Mapping[str, Any] | None) -> Mapping[str, Callable[[Any], Any]]:
    """What reads the values of each noted field of dicts."""
    noted = (types or {}).get(PYTHON) or {}
    return {name: _READ[kind] for name, kind in noted.items() if kind in _READ}


def with_types(record: dict[str, Any], read: Mapping[str, Callable[[Any], Any]]) -> dict[str, Any]:
    """The record with the values of these fields as they were; one that is not in its form stays as it is."""
    for name, reads in read.items():
        value = record.get(name)
        if value is not None:
            try:
                record[name] = reads(value)
            except (ValueError, TypeError, ArithmeticError):
                continue
    return record


def arrow_types(schema: Any) -> dict[str, Any] | None:
    """The types of columns that an export has in another form; None: there are none."""
    import pyarrow as pa

    plain = (pa.bool_(), pa.int64(), pa.float64(), pa.string())
    special = [field.remove_metadata() for field in schema if field.type not in plain]
    if not special:
        return None
    packed = zlib.compress(pa.schema(special).serialize().to_pybytes(), 9)
    return {ARROW: base64.b64encode(packed).decode()}


def arrow_schema(types: Mapping[str, Any] | None) -> Any:
    """The noted columns as an Arrow schema, or none."""
    import pyarrow as pa

    noted = (types or {}).get(ARROW)
    if not noted:
        return pa.schema([])
    return pa.ipc.read_schema(pa.py_buffer(zlib.decompress(base64.b64decode(noted))))
