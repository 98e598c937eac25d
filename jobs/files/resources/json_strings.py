"""The strings and objects of a JSON file with their positions, by RFC 8259.

`json` has no positions. Nothing here calls itself, so depth costs no more than length.

Knows: JSON. Does not know: which strings are texts.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from jobs.documents import quoted
from jobs.errors import CorpusError

MAX_DEPTH = 100  # of objects and arrays within each other: no file of texts has more

_BLANKS = re.compile(r"[ \t\r\n]*+")
_STRING = re.compile(r'"[^"\\\x00-\x1f]*+(?>(?:\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4})[^"\\\x00-\x1f]*+)*)"')
_OTHER = re.compile(r"true|false|null|-?(?:0|[1-9]\d*+)(?:\.\d++)?(?:[eE][+-]?\d++)?")


@dataclass(frozen=True, slots=True)
class JsonString:
    """A value: `start` and `stop` are its positions with the quotation marks."""

    path: tuple[str, ...]  # keys, and the numbers of the elements of arrays, from 0
    text: str
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class JsonMember:
    """A key of an object, from its quotation mark to the end of its value."""

    key: str
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class JsonObject:
    """An object: `start` and `stop` are its positions with the braces."""

    path: tuple[str, ...]
    members: Sequence[JsonMember]
    start: int
    stop: int


@dataclass(slots=True)
class _Open:
    """An object or array that is not over yet."""

    closing: str
    start: int
    members: list[JsonMember] = field(default_factory=list)
    key_start: int = 0
    key: str = ""
    count: int = 0


def strings_of(text: str) -> Iterator[JsonString]:
    """The values that are strings, in the order of the file. Raises CorpusError with the line of what is no JSON."""
    return (each for each in _values(text) if isinstance(each, JsonString))


def objects_of(text: str) -> Iterator[JsonObject]:
    """The objects, each behind those that are in it. Raises CorpusError with the line of what is no JSON."""
    return (each for each in _values(text) if isinstance(each, JsonObject))


def _values(text: str) -> Iterator[JsonString | JsonObject]:
    around: list[_Open] = []
    at = _skip(text, 1 if text.startswith("\ufeff") else 0)
    while True:
        if around and around[-1].closing == "}":
            at = _read_key(text, at, around[-1])
        sign = text[at : at + 1]
        if sign in ("{", "["):
            if len(around) == MAX_DEPTH:
                _refuse(text, at, f"more than {MAX_DEPTH} objects and arrays within each other")
            around.append(_Open("}" if sign == "{" else "]", at))
            at = _skip(text, at + 1)
            if text[at : at + 1] != around[-1].closing:
                continue
        elif sign == '"':
            found = _STRING.match(text, at) or _refuse(text, at, f"a text that is no JSON: {_near(text, at)}")
            yield JsonString(_path(around), json.loads(found[0]), at, found.end())
            at = _end_value(text, found.end(), around)
        else:
            found = _OTHER.match(text, at) or _refuse(text, at, f"no JSON: {_near(text, at)}")
            at = _end_value(text, found.end(), around)
        while around and text[at : at + 1] == around[-1].closing:
            closed = around.pop()
            if closed.closing == "}":
                yield JsonObject(_path(around), closed.members, closed.start, at + 1)
            at = _end_value(text, at + 1, around)
        if not around:
            break
        if text[at : at + 1] != ",":
            _refuse(text, at, f"a comma or {around[-1].closing} is missing in front of {_near(text, at)}")
        around[-1].count += 1
        at = _skip(text, at + 1)
    if at < len(text):
        _refuse(text, at, f"more behind the end: {_near(text, at)} (JSON lines are read with --format jsonl)")


def written(text: str, *, ascii_only: bool) -> str:
    """A string of JSON."""
    return json.dumps(text, ensure_ascii=ascii_only)


def _path(around: list[_Open]) -> tuple[str, ...]:
    return tuple(each.key if each.closing == "}" else str(each.count) for each in around)


def _end_value(text: str, at: int, around: list[_Open]) -> int:
    """Where the next sign stands behind a value that ends here."""
    if around and around[-1].closing == "}":
        around[-1].members.append(JsonMember(around[-1].key, around[-1].key_start, at))
    return _skip(text, at)


def _read_key(text: str, at: int, around: _Open) -> int:
    found = _STRING.match(text, at) or _refuse(text, at, f"no key between quotation marks: {_near(text, at)}")
    around.key, around.key_start = json.loads(found[0]), at
    at = _skip(text, found.end())
    if text[at : at + 1] != ":":
        _refuse(text, at, f"a colon is missing in front of {_near(text, at)}")
    return _skip(text, at + 1)


def _skip(text: str, at: int) -> int:
    found = _BLANKS.match(text, at)
    return at if found is None else found.end()


def _near(text: str, at: int) -> str:
    return quoted(text[at : at + 30], 30) if at < len(text) else "the end of the file"


def _refuse(text: str, at: int, what: str) -> NoReturn:
    raise CorpusError(f"line {text.count(chr(10), 0, at) + 1}: {what}")
