"""JSON numbers exactly as they were written, digit by digit.

orjson reads a number as a 64-bit integer or a double, and writes that: 0.10 becomes 0.1, 1e5 becomes 100000.0, -0
becomes 0, 2 ** 64 becomes a double, and 1E400 is refused. Here such a number is an `orjson.Fragment`, which is written
unchanged. Most lines have none: what orjson writes as it was read stays what orjson read.
"""

import json
import re
from typing import Any

import orjson

# orjson reads and writes values of these types as they are, but for a negative zero.
_PLAIN = frozenset({str, int, bool, type(None)})
_INTEGER = re.compile(r"-?[0-9]+")
_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?", re.ASCII)


def may_differ(values: dict[str, Any], text: bytes) -> bool:
    """Whether some number in `text`, which orjson read as these values, may be written differently from how orjson
    would write it.

    Without spaces, `text` and orjson's output are the same bytes only if every number is. (Escapes may differ too; then
    reading exactly costs a few microseconds and changes nothing.)
    """
    if _PLAIN.issuperset(map(type, values.values())):
        return b"-0" in text and 0 in values.values()
    try:
        written = orjson.dumps(values)
    except orjson.JSONEncodeError:  # it is nested deeper than orjson writes
        return True
    return written.translate(None, b" ") != text.translate(None, b" \t\r\n")


def read_exactly(text: str) -> Any:
    """The value of a JSON text, every number in it a Fragment. Raises ValueError where it is not JSON, RecursionError
    where it is nested too deep. (Half of a surrogate pair is accepted.)"""
    return json.loads(text, parse_int=orjson.Fragment, parse_float=orjson.Fragment, parse_constant=_refuse)


def read_fields(text: str | None) -> dict[str, Any]:
    """The other fields of a document, as the job stores them; a number that orjson would change is a Fragment."""
    values = read_value(text) if text else {}
    assert isinstance(values, dict)
    return values


def read_value(text: str) -> Any:
    """A stored JSON value; a number that orjson would change is a Fragment."""
    try:
        values = orjson.loads(text)
        is_same = orjson.dumps(values) == text.encode()  # orjson wrote all of it but such numbers
    except orjson.JSONDecodeError:  # a number too large for a double
        is_same = False
    return values if is_same else read_exactly(text)


def digits(number: orjson.Fragment) -> str:
    """The number as it was written."""
    return orjson.dumps(number).decode()


def whole_number(value: object) -> str | None:
    """The digits of a number without a fraction, for an id: also of 1.0, which pandas writes for 1 in a column with
    gaps. None for any other value."""
    if type(value) is int:
        return str(value)
    written = digits(value) if type(value) is orjson.Fragment else repr(value) if type(value) is float else ""
    whole, _, fraction = written.partition(".")
    return whole if is_integer(whole) and not fraction.strip("0") else None


def is_integer(number: str) -> bool:
    """Whether it is written as an integer, without point and exponent."""
    return _INTEGER.fullmatch(number) is not None


def is_number(text: str) -> bool:
    """Whether a text is a number as JSON writes one."""
    return _NUMBER.fullmatch(text) is not None


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
