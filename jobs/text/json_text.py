"""Values as JSON: without characters that control a terminal, and with the types that databases return."""

import re
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import PurePath
from typing import Any

import orjson

# JSON escapes U+0000 to U+001F by itself. These control a terminal too: DEL, U+0080 to U+009F, and the marks that
# reverse the direction of writing. In UTF-8.
_UNESCAPED = re.compile(rb"\x7f|\xc2[\x80-\x9f]|\xd8\x9c|\xe2\x80[\x8e\x8f\xa8-\xae]|\xe2\x81[\xa6-\xa9]|\xef\xbb\xbf")


def to_json(value: Any, *, indent: bool = False) -> bytes:
    """JSON without characters that control a terminal; NaN and infinities are null."""
    options = orjson.OPT_PASSTHROUGH_DATETIME | (orjson.OPT_INDENT_2 if indent else 0)
    text = orjson.dumps(value, _to_json_value, options)
    return _UNESCAPED.sub(_json_escape, text) if _UNESCAPED.search(text) else text


def iso(value: datetime) -> str:
    """2026-11-22T10:00:00.000Z"""
    return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _json_escape(match: re.Match[bytes]) -> bytes:
    return f"\\u{ord(match[0].decode()):04x}".encode()


def _to_json_value(value: Any) -> Any:
    """Values of types that orjson does not know."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Decimal):  # PostgreSQL's sums
        is_whole = value.is_finite() and value == value.to_integral_value()
        return orjson.Fragment(str(int(value))) if is_whole else float(value)
    if isinstance(value, datetime):
        return iso(value)
    if isinstance(value, (PurePath, date)):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")
