"""The values of Arrow columns as JSON has them.

    int8 to uint64, bool, string, null     as they are
    double; float, half float              the shortest digits that read back as the same number of that width;
                                           NaN and infinity are null
    decimal                                a number with the digits that it has, zeros at the end included
    date, time, timestamp                  ISO 8601 text, "Z" behind it where the column has a time zone (then in UTC)
    duration                               a whole number, in the unit of the column
    binary                                 Base64 text
    uuid                                   its usual text
    list, struct, map                      list, object, object (a map whose keys are not text: a list of pairs)
    dictionary, extension types            what they stand for, what stores them
    a column that kvjobs wrote as JSON     that JSON

Knows: Arrow's types. Does not know: files, ids, texts.
"""

import base64
from collections.abc import Callable
from decimal import Decimal
from itertools import pairwise
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.types as is_type

from jobs.corpus.parquet import JSON_MARK

MAX_DEPTH = 200  # orjson writes 254 levels


class NoJsonFormError(Exception):
    """Values of this type have no JSON form; its text names the type."""


class BadText:
    """A text that is not UTF-8."""

    def __init__(self, data: bytes) -> None:
        self.data = data


def check_type(data_type: Any, depth: int = 0) -> None:
    """Raise NoJsonFormError for a type whose values have no JSON form."""
    if depth > MAX_DEPTH:
        raise NoJsonFormError(f"values nested more than {MAX_DEPTH} deep")
    if is_type.is_dictionary(data_type):
        check_type(data_type.value_type, depth + 1)
    elif isinstance(data_type, pa.BaseExtensionType):
        check_type(data_type.storage_type, depth + 1)
    elif is_type.is_nested(data_type) and not is_type.is_union(data_type):
        for index in range(data_type.num_fields):
            check_type(data_type.field(index).type, depth + 1)
    elif is_type.is_union(data_type) or is_type.is_interval(data_type) or is_type.is_run_end_encoded(data_type):
        raise NoJsonFormError(str(data_type))


def is_text(data_type: Any) -> bool:
    """Whether the values of a type are texts. Old writers mark texts as bytes."""
    if is_type.is_dictionary(data_type):
        return is_text(data_type.value_type)
    kinds = (is_type.is_string, is_type.is_large_string, is_type.is_string_view, _is_binary)
    return any(is_kind(data_type) for is_kind in kinds)


def column_values(column: Any, field: Any, *, as_text: bool) -> list[Any]:
    """The values of a column of a batch. `as_text`: bytes are UTF-8 text."""
    values = _values(column, as_text=as_text)
    marked = (field.metadata or {}).items() >= JSON_MARK.items()
    return [_parsed(value) for value in values] if marked else values


def default(value: Any) -> Any:
    """What orjson calls for a value whose type it does not know."""
    if isinstance(value, Decimal):
        return orjson.Fragment(format(value, "f"))
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _values(array: Any, *, as_text: bool = False) -> list[Any]:
    data_type = array.type
    if is_type.is_dictionary(data_type):
        return _dictionary(array, as_text=as_text)
    if isinstance(data_type, pa.BaseExtensionType):
        return array.to_pylist() if isinstance(data_type, pa.UuidType) else _values(array.storage)
    if is_type.is_string(data_type) or is_type.is_large_string(data_type) or is_type.is_string_view(data_type):
        return _texts(array)
    if _is_binary(data_type):
        return _texts(array) if as_text else _in_base64(array)
    if is_type.is_floating(data_type):
        return _floats(array)
    if is_type.is_temporal(data_type):
        return _times(array)
    if is_type.is_struct(data_type):
        return _objects(array)
    if is_type.is_map(data_type):
        return _maps(array)
    if is_type.is_nested(data_type):
        return _lists(array)
    if array.null_count or is_type.is_null(data_type) or is_type.is_decimal(data_type):
        return array.to_pylist()  # type: ignore[no-any-return]  # pyarrow has no types
    return array.to_numpy(zero_copy_only=False).tolist()  # type: ignore[no-any-return]  # pyarrow has no types; ten times as fast as to_pylist


def _dictionary(array: Any, *, as_text: bool) -> list[Any]:
    """The values of a dictionary array: each distinct value is made once, however often it occurs."""
    named = array.indices.dictionary_encode()
    values = _values(array.dictionary.take(named.dictionary), as_text=as_text)
    return [None if index is None else values[index] for index in named.indices.to_pylist()]


def _is_binary(data_type: Any) -> bool:
    kinds = (is_type.is_binary, is_type.is_large_binary, is_type.is_binary_view, is_type.is_fixed_size_binary)
    return any(is_kind(data_type) for is_kind in kinds)


def _texts(array: Any) -> list[Any]:
    try:
        if is_type.is_fixed_size_binary(array.type):
            array = array.cast(pa.binary())
        if _is_binary(array.type):
            array = array.cast(pa.large_string())  # checks UTF-8
        return array.to_numpy(zero_copy_only=False).tolist()  # type: ignore[no-any-return]  # pyarrow has no types
    except (UnicodeDecodeError, pa.ArrowInvalid):
        return [_decoded(value) for value in array.cast(pa.large_binary()).to_pylist()]


def _decoded(data: bytes | None) -> str | BadText | None:
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError:
        return BadText(data or b"")


def _in_base64(array: Any) -> list[str | None]:
    return [None if value is None else base64.b64encode(value).decode() for value in array.to_pylist()]


def _floats(array: Any) -> list[Any]:
    """Numbers of less than 64 bits become numpy's scalars, for which orjson writes the fewest digits that are exact."""
    if is_type.is_float64(array.type) and not array.null_count:
        return array.to_numpy(zero_copy_only=False).tolist()  # type: ignore[no-any-return]  # pyarrow has no types
    numbers = list(array.to_numpy(zero_copy_only=False))  # NaN where there is none: null in JSON, as NaN itself is
    return [None if number != number else number for number in numbers] if array.null_count else numbers


def _times(array: Any) -> list[Any]:
    if is_type.is_duration(array.type):
        return array.cast(pa.int64()).to_pylist()  # type: ignore[no-any-return]  # pyarrow has no types
    if is_type.is_timestamp(array.type) and array.type.tz is not None:
        array = array.cast(pa.timestamp(array.type.unit, "UTC"))
    texts = array.cast(pa.string()).to_pylist()
    return [None if text is None else text.replace(" ", "T", 1) for text in texts]


def _objects(array: Any) -> list[Any]:
    names = [array.type.field(index).name for index in range(array.type.num_fields)]
    columns = [_values(column) for column in array.flatten()]
    rows = zip(*columns, strict=True) if columns else ([()] * len(array))
    objects = [dict(zip(names, row, strict=True)) for row in rows]
    return _where_valid(array, objects)


def _maps(array: Any) -> list[Any]:
    has_text_keys = is_text(array.type.key_type)
    keys, items = _values(array.keys, as_text=True), _values(array.items)
    pairs = list(zip(keys, items, strict=True))
    return _cut(array, pairs, 0, dict if has_text_keys else lambda some: [list(pair) for pair in some])


def _lists(array: Any) -> list[Any]:
    if is_type.is_list(array.type) or is_type.is_large_list(array.type):
        start = array.offsets[0].as_py()
        stop = array.offsets[-1].as_py()
        return _cut(array, _values(array.values[start:stop]), start, list)
    return [_values(row.values) if row.is_valid else None for row in array]  # of fixed size, or views


def _cut(array: Any, values: list[Any], start: int, make: Callable[[list[Any]], Any]) -> list[Any]:
    """The items of each list; `values` begin with the item at the offset `start`."""
    offsets = array.offsets.to_pylist()
    rows = [make(values[first - start : stop - start]) for first, stop in pairwise(offsets)]
    return _where_valid(array, rows)


def _where_valid(array: Any, values: list[Any]) -> list[Any]:
    if not array.null_count:
        return values
    valid = array.is_valid().to_pylist()
    return [value if is_valid else None for value, is_valid in zip(values, valid, strict=True)]


def _parsed(text: Any) -> Any:
    """JSON as it is written, digit by digit; what is not JSON stays a text."""
    if not isinstance(text, str):
        return text
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
    return orjson.Fragment(text)
