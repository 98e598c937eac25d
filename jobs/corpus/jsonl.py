"""JSON Lines: an object a line. Strict JSON, as orjson reads it."""

import json
import re
from collections.abc import Iterator
from io import BufferedReader
from typing import Any

import orjson

from jobs.corpus.documents import Record, Reject, Rejected, check_record, kind_of, reject, shown
from jobs.corpus.lines import bad_utf8, numbered_lines, too_long
from jobs.corpus.payload import Take, take_text

# orjson makes a float of an integer of more than 64 bits, which has 19 digits at least. Values of these types
# neither are such a float nor hold one.
EXACT = frozenset({str, int, bool, type(None)})
LONG_NUMBER = re.compile(rb"[0-9]{19}")


def read_jsonl(
    stream: BufferedReader, id_field: str, text_field: str, max_line_bytes: int, take: Take | None = None
) -> Iterator[Record]:
    """A document an object; blank lines are skipped. Its payload is its text, or what `take` makes of it."""
    take = take or take_text(text_field)
    loads, position = orjson.loads, 0
    for number, line in numbered_lines(stream, max_line_bytes):
        if line is None:
            yield too_long(position, number, max_line_bytes)
            position += 1
            continue
        try:
            values = loads(line)
        except orjson.JSONDecodeError as error:
            if line.isspace() or not line:
                continue
            yield _not_json(position, number, line, error)
            position += 1
            continue
        if type(values) is not dict:
            yield _not_object(position, number, line, values)
            position += 1
            continue
        raw_id = values.pop(id_field, None)
        text = take(values)
        inexact = type(raw_id) is float or not EXACT.issuperset(map(type, values.values()))
        if inexact and LONG_NUMBER.search(line):
            yield _read_exactly(position, number, line, id_field, text_field, take)
        else:
            yield check_record(position, number, raw_id, text, values, text_field)
        position += 1


def _read_exactly(position: int, number: int, line: bytes, id_field: str, text_field: str, take: Take) -> Record:
    """The same with every integer as it is written, however long."""
    try:
        values = json.loads(line, parse_int=_exact_integer)
    except RecursionError:
        return reject(position, number, Reject.TOO_DEEP, "the line is nested too deep to be read; flatten it")
    raw_id = values.pop(id_field, None)
    text = take(values)
    if type(raw_id) is orjson.Fragment:
        raw_id = int(orjson.dumps(raw_id))
    return check_record(position, number, raw_id, text, values, text_field)


def _exact_integer(digits: str) -> Any:
    """An integer that orjson can write, else its digits as they stand: at most 309, for more it reads as infinity."""
    return int(digits) if len(digits) < 19 else orjson.Fragment(digits)


def _not_json(position: int, number: int, line: bytes, error: orjson.JSONDecodeError) -> Rejected:
    try:
        line.decode()
    except UnicodeDecodeError as bad:
        return bad_utf8(position, number, number, bad)
    if "surrogate" in error.msg:
        reason = (
            f"a string holds half of a surrogate pair (column {error.colno}), which is no character; take it out, or "
            "write the character itself"
        )
        return reject(position, number, Reject.LONE_SURROGATE, reason)
    reason = f"the line is not JSON: {error.msg} (column {error.colno}): {shown(line.strip())}"
    if number == 1 and line.lstrip()[:1] not in (b"{", b"["):
        reason += "; if the corpus is plain text, say --format txt"
    return reject(position, number, Reject.BAD_JSON, reason)


def _not_object(position: int, number: int, line: bytes, values: object) -> Rejected:
    reason = f'the line is {kind_of(values)}, not an object: {shown(line.strip())}; write {{"id": ..., "text": ...}}'
    return reject(position, number, Reject.NOT_OBJECT, reason)
