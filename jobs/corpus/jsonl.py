"""JSON Lines: an object per line, in strict JSON as orjson reads it."""

import json
from collections.abc import Iterator
from io import BufferedReader
from typing import Any

import orjson

from jobs.corpus.field_path import take_field
from jobs.corpus.lines import bad_utf8, numbered_lines, too_long
from jobs.corpus.payload import TakePayload, take_text
from jobs.documents import Record, Reject, Rejected, check_record, kind_of, quoted, reject
from jobs.text.json_numbers import may_differ, read_exactly


def read_jsonl(
    stream: BufferedReader, id_field: str, text_field: str, max_line_bytes: int, take: TakePayload | None = None
) -> Iterator[Record]:
    """A document per object; blank lines are skipped. The payload is the text, or what `take` makes of the object."""
    take = take or take_text(text_field)
    loads, position = orjson.loads, 0
    for number, line in numbered_lines(stream, max_line_bytes):
        if line is None:
            yield too_long(position, number, max_line_bytes)
            position += 1
            continue
        if len(line) < 3 and line.isspace():  # faster than orjson's error, for millions of blank lines
            continue
        try:
            values = loads(line)
            if type(values) is dict and may_differ(values, line):
                values = read_exactly(line.decode())
        except orjson.JSONDecodeError as error:
            if line.isspace() or not line:
                continue
            values = _read_large_numbers(line, error)
            if values is None:
                yield _not_json(position, number, line, error)
                position += 1
                continue
        except RecursionError:
            yield reject(position, number, Reject.TOO_DEEP, "the line is nested too deep to be read; flatten it")
            position += 1
            continue
        if type(values) is not dict:
            yield _not_object(position, number, line, values)
        else:
            raw_id = take_field(values, id_field)
            yield check_record(position, number, raw_id, take(values), values, text_field)
        position += 1


def _read_large_numbers(line: bytes, error: orjson.JSONDecodeError) -> Any:
    """The values of a line that orjson refused only for a number too large for a double, which is valid JSON; else
    None."""
    if "number" not in error.msg:
        return None
    try:
        values = read_exactly(line.decode())
        json.dumps(values, ensure_ascii=False, default=str).encode()  # raises for half of a surrogate pair
    except (ValueError, RecursionError):  # also for what is not UTF-8
        return None
    return values


def _not_json(position: int, number: int, line: bytes, error: orjson.JSONDecodeError) -> Rejected:
    try:
        line.decode()
    except UnicodeDecodeError as bad:
        return bad_utf8(position, number, number, bad)
    if "surrogate" in error.msg:
        reason = (
            f"a string holds half of a surrogate pair (column {error.colno}), which is not a character; remove it, or "
            "write the character itself"
        )
        return reject(position, number, Reject.LONE_SURROGATE, reason)
    reason = f"the line is not JSON: {error.msg} (column {error.colno}): {quoted(line.strip())}"
    if number == 1 and line.lstrip()[:1] not in (b"{", b"["):
        reason += "; if the corpus is plain text: --format txt"
    return reject(position, number, Reject.BAD_JSON, reason)


def _not_object(position: int, number: int, line: bytes, values: object) -> Rejected:
    reason = f'the line is {kind_of(values)}, not an object: {quoted(line.strip())}; write {{"id": ..., "text": ...}}'
    return reject(position, number, Reject.NOT_OBJECT, reason)
