"""Results as a table: the columns of a parquet export, with the types that the fields had when they were submitted."""

import base64
import tempfile
from collections.abc import Iterable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import orjson

from jobs.corpus.parquet import JSON_MARK
from jobs.errors import SpecError
from jobs.system.requirements import is_installed, needs_pyarrow
from kvjobs.field_types import PYTHON, arrow_schema

RESULT_COLUMNS = ("id", "status", "error_code", "error", "line", "fields")  # that no field of the corpus is
_SECONDS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def require_pyarrow() -> None:
    """Raise SpecError where there is no pyarrow."""
    if not is_installed("pyarrow"):
        raise SpecError(needs_pyarrow())


def arrow_table(pieces: Iterable[bytes], types: Mapping[str, Any] | None) -> Any:
    """The table of a parquet export. `types`: as noted in the job (`kvjobs.field_types`)."""
    import pyarrow.parquet as pq

    with tempfile.TemporaryFile() as file:
        file.writelines(pieces)
        file.seek(0)
        table = pq.read_table(file)
    for field in [*arrow_schema(types), *_of_python(types)]:
        index = table.schema.get_field_index(field.name)
        if index >= 0 and field.name not in RESULT_COLUMNS:
            is_json = (table.schema.field(index).metadata or {}).items() >= JSON_MARK.items()
            column = _restored(table.column(index), field.type, is_json=is_json)
            if column is not None:
                table = table.set_column(index, field.name, column)
    return table


def _of_python(types: Mapping[str, Any] | None) -> list[Any]:
    """The Arrow types of fields of dicts, but for a Decimal, whose digits no column type has in general."""
    import pyarrow as pa

    known = {
        "datetime": pa.timestamp("us"),
        "date": pa.date32(),
        "time": pa.time64("us"),
        "timedelta": pa.duration("us"),
        "bytes": pa.binary(),
    }
    return [pa.field(name, known[kind]) for name, kind in ((types or {}).get(PYTHON) or {}).items() if kind in known]


def _restored(column: Any, kind: Any, *, is_json: bool) -> Any:
    """The column in the type that it had; None where one of its values does not fit. `is_json`: its texts are JSON."""
    import pyarrow as pa
    import pyarrow.types as is_type

    try:
        if is_type.is_dictionary(kind):
            values = _restored(column, kind.value_type, is_json=is_json)
            return None if values is None else values.dictionary_encode()
        if not is_json and _is_plain(kind):
            return column.cast(kind)
        values = column.to_pylist()
        if is_json:
            values = [None if value is None else orjson.loads(value) for value in values]
        return pa.chunked_array([pa.array([_value(value, kind) for value in values], kind)])
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, ValueError, TypeError, ArithmeticError):
        return None


def _is_plain(kind: Any) -> bool:
    """Whether Arrow itself makes values of this type from numbers and texts of an export."""
    import pyarrow as pa
    import pyarrow.types as is_type

    is_binary = is_type.is_binary(kind) or is_type.is_large_binary(kind) or is_type.is_fixed_size_binary(kind)
    is_duration = is_type.is_duration(kind)
    return not (is_type.is_nested(kind) or is_binary or is_duration or isinstance(kind, pa.BaseExtensionType))


def _value(value: Any, kind: Any) -> Any:
    """A value of JSON as Arrow takes it for this type: the reverse of `jobs.corpus.parquet.values`."""
    import pyarrow.types as is_type

    if value is None:
        return None
    if is_type.is_map(kind):
        pairs = value.items() if isinstance(value, dict) else value
        return [(_value(key, kind.key_type), _value(item, kind.item_type)) for key, item in pairs]
    if is_type.is_struct(kind):
        return {field.name: _value(value.get(field.name), field.type) for field in kind}
    if is_type.is_nested(kind):
        return [_value(item, kind.value_type) for item in value]
    if is_type.is_dictionary(kind):
        return _value(value, kind.value_type)
    if is_type.is_timestamp(kind):
        return datetime.fromisoformat(value)
    if is_type.is_date(kind):
        return date.fromisoformat(value)
    if is_type.is_time(kind):
        return time.fromisoformat(value)
    if is_type.is_duration(kind):  # of dicts, seconds
        return timedelta(seconds=value) if isinstance(value, float) else timedelta(seconds=value / _SECONDS[kind.unit])
    if is_type.is_decimal(kind):
        return Decimal(str(value))
    if is_type.is_binary(kind) or is_type.is_large_binary(kind) or is_type.is_fixed_size_binary(kind):
        return base64.b64decode(value)
    return value
