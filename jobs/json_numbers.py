"""Numbers of JSON as they are written, digit by digit.

orjson reads a number as an integer of 64 bits or a double, and writes that: 0.10 would come back as 0.1, 1e5 as
100000.0, -0 as 0, 2 ** 64 as a double, and 1E400 not at all. Here such a number is an `orjson.Fragment`, which is
written as it came. Most lines hold none: those that orjson writes as they are stay what orjson read.
"""

import json
import re
from typing import Any

import orjson

# orjson reads and writes values of these types as they are, but for a negative zero.
_PLAIN = frozenset({str, int, bool, type(None)})
_INTEGER = re.compile(r"-?[0-9]+")


def may_differ(values: dict[str, Any], text: bytes) -> bool:
    """Whether a number of `text`, which orjson read as these values, may be written otherwise there.

    Both without their spaces are the same bytes only where each number is. (Escapes may be another reason why they
    are not; to read those exactly costs a few microseconds and changes nothing.)
    """
    if _PLAIN.issuperset(map(type, values.values())):
        return b"-0" in text and 0 in values.values()
    try:
        written = orjson.dumps(values)
    except orjson.JSONEncodeError:  # it is nested deeper than orjson writes
        return True
    return written.translate(None, b" ") != text.translate(None, b" \t\r\n")


def read_exactly(text: str) -> Any:
    """The value of a text of JSON, each number in it a Fragment. Raise ValueError where it is no JSON, RecursionError
    where it is nested too deep. (Half of a surrogate pair is taken.)"""
    return json.loads(text, parse_int=orjson.Fragment, parse_float=orjson.Fragment, parse_constant=_refuse)


def read_fields(text: str | None) -> dict[str, Any]:
    """The other fields of a line, as a job keeps them; a number that orjson would change is a Fragment."""
    values = read_value(text) if text else {}
    assert isinstance(values, dict)
    return values


def read_value(text: str) -> Any:
    """The same of any value that a job keeps."""
    try:
        values = orjson.loads(text)
        is_same = orjson.dumps(values) == text.encode()  # it was written by orjson, but for such numbers
    except orjson.JSONDecodeError:  # a number that no double holds
        is_same = False
    return values if is_same else read_exactly(text)


def digits(number: orjson.Fragment) -> str:
    """As it is written."""
    return orjson.dumps(number).decode()


def is_integer(number: str) -> bool:
    """Whether it is written as one, without a point or an exponent."""
    return _INTEGER.fullmatch(number) is not None


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
