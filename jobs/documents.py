"""The records of a corpus: documents, and lines that cannot be one.

Knows: what every format has in common. Does not know: files, formats, tables.

Named tuples, not dataclasses: ten million are made, and making a frozen dataclass with slots takes 0.8 µs, a named
tuple 0.3.
"""

import enum
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, final

import orjson

from jobs.text.json_numbers import whole_number

MAX_ID_BYTES = 2048  # a B-tree entry of PostgreSQL holds 2,704 bytes, and the ids are indexed


class Reject(enum.StrEnum):
    """Why a line is not a document: the values of `error_code`, which stay as they are."""

    BAD_JSON = "bad-json"
    NOT_OBJECT = "not-object"  # JSON, but a list, a string, a number ...
    BAD_ROW = "bad-row"  # csv, tsv: the wrong number of cells, or a quote that does not close
    BAD_UTF8 = "bad-utf8"
    TOO_LONG = "too-long"
    TOO_DEEP = "too-deep"
    NO_TEXT = "no-text"
    TEXT_TYPE = "text-type"
    EMPTY_TEXT = "empty-text"
    NUL = "nul"
    LONE_SURROGATE = "lone-surrogate"
    BAD_ID = "bad-id"
    DUPLICATE_ID = "duplicate-id"
    NO_QUERY = "no-query"
    NO_CANDIDATES = "no-candidates"
    BAD_CANDIDATE = "bad-candidate"
    DUPLICATE_CANDIDATE = "duplicate-candidate"
    BAD_MESSAGES = "bad-messages"
    BAD_REQUEST = "bad-request"  # a line of a batch file of OpenAI
    NO_LANGUAGE = "no-language"  # --model auto: neither the line nor the command says it
    NO_ROUTE = "no-route"  # --model auto: no model translates from the line's language
    BAD_FILE = "bad-file"  # a file that is translated as a file: it is broken
    BAD_OPTION = "bad-option"  # a field that says an option of the document holds no such (`--max-chars-field` ...)
    NO_ID = "no-id"  # of a document that is appended to an open job


@final
class Document(NamedTuple):
    """A line of the corpus that can be processed."""

    position: int  # 0, 1, ... in the order of the corpus; rejected lines count, blank ones do not
    external_id: str  # the corpus' own id, else the line number
    numeric_id: bool  # the corpus writes the id as a number, and so does the export
    line: int  # of the file, from 1; the first of a document that spans several
    text: str
    fields: str | None  # the line's other fields, JSON
    estimated_tokens: int
    unnamed: bool = False  # the corpus has no id for it: `external_id` is the line number
    route: str | None = None  # the language by which its models are chosen, of a job with routes by language
    own_options: str | None = None  # that go before the job's (`jobs.tasks.document_options`)


@final
class Payload(NamedTuple):
    """The payload of a document that is more than a text."""

    text: str  # JSON
    estimated_tokens: int


@final
class Problem(NamedTuple):
    """Why a line has no valid payload."""

    code: Reject
    reason: str


@final
class Rejected(NamedTuple):
    """A line of the corpus that cannot be a document, and why."""

    position: int
    external_id: str | None  # of a line with a valid id, so that the line can be found by it
    numeric_id: bool
    line: int
    code: Reject
    reason: str  # what is wrong and what to do, in a sentence without control characters
    unnamed: bool = False  # the corpus has no id for it: `external_id` is the line number
    text: str | None = None  # of a line that can be read, and has no route
    fields: str | None = None  # likewise, as a document has them


class AppendState(enum.StrEnum):
    """What came of a document that was to be appended to an open job."""

    ADDED = "added"
    PRESENT = "present"  # the job has it: it was sent before
    REFUSED = "refused"  # it is not stored; a code and a reason say why


@final
class Appended(NamedTuple):
    """What came of a document that was to be appended to an open job."""

    external_id: str | None  # None: it has none that can be read
    state: AppendState
    position: int | None = None  # in the job; of a refused document None, but for one whose id another document has
    code: Reject | None = None  # of a refused document
    reason: str | None = None  # likewise: what is wrong and what to do, in a sentence


Record = Document | Rejected
LineName = Callable[[int], str]  # names a line of the corpus for people


def estimate_tokens(text: str) -> int:
    """Roughly how many tokens a text will be: a quarter of its UTF-8 bytes, and at least 1.

    Cheap (0.1 µs), and close enough to cut a corpus into shards of similar size: a Marian vocabulary has 3 to 5 bytes
    per token for European languages and about 4 for Chinese and Japanese.
    """
    num_bytes = len(text) if text.isascii() else len(text.encode())
    return (num_bytes + 3) // 4 or 1


def check_record(
    position: int, line: int, raw_id: object, text: object, fields: Mapping[str, Any], text_field: str
) -> Record:
    """The document that these values make, or why they make none. `text` is a text that is checked here, or a `Payload`
    or a `Problem` that was checked before. `fields`: the line's other fields."""
    unnamed = False
    if type(raw_id) is str and raw_id:
        external_id, numeric_id = raw_id, False
        if len(raw_id) > MAX_ID_BYTES // 4 and len(raw_id.encode()) > MAX_ID_BYTES:
            return reject(position, line, Reject.BAD_ID, f"the id {quoted(raw_id)} is longer than {MAX_ID_BYTES} bytes")
        if "\0" in raw_id:
            reason = f"the id {quoted(raw_id)} holds a NUL character, which no database can index; take it out"
            return reject(position, line, Reject.BAD_ID, reason)
    elif raw_id is None or raw_id == "":
        external_id, numeric_id, unnamed = str(line), True, True
    elif (written := whole_number(raw_id)) is not None:
        external_id, numeric_id = written, True
        if len(written) > MAX_ID_BYTES:
            return reject(
                position, line, Reject.BAD_ID, f"the id {quoted(written)} is longer than {MAX_ID_BYTES} bytes"
            )
    else:
        reason = f"the id is {kind_of(raw_id)}; write a string or an integer, or none (then it is the line number)"
        return reject(position, line, Reject.BAD_ID, reason)

    if type(text) is Payload:
        text, tokens = text
    else:
        problem = text if type(text) is Problem else check_text(text, text_field, "text", fields)
        if problem:
            return Rejected(position, external_id, numeric_id, line, problem.code, problem.reason, unnamed)
        assert type(text) is str
        tokens = estimate_tokens(text)

    if not fields:
        return Document(position, external_id, numeric_id, line, text, None, tokens, unnamed)
    try:
        written = orjson.dumps(fields).decode()
    except orjson.JSONEncodeError:
        reason = "its other fields are nested too deep to be stored (more than 254 levels); flatten them"
        return Rejected(position, external_id, numeric_id, line, Reject.TOO_DEEP, reason, unnamed)
    return Document(position, external_id, numeric_id, line, text, written, tokens, unnamed)


def check_text(text: object, field: str, role: str, fields: Mapping[str, Any]) -> Problem | None:
    """What is wrong with the text of a field, if anything. `role`: as in the option --ROLE-field, which names it."""
    if type(text) is not str:
        if text is None:
            return Problem(Reject.NO_TEXT, _no_text(field, role, fields))
        cure = "put it in quotes"
        if type(text) is dict and text and role != "content":
            cure = f"name one of the fields in it, such as --{role}-field {field}.{next(iter(text))}"
        reason = f"the field {quoted(field)} is {kind_of(text)}, not a string; {cure}"
        return Problem(Reject.TEXT_TYPE, reason)
    if not text or text.isspace():
        return Problem(Reject.EMPTY_TEXT, f"the field {quoted(field)} holds no text; fill it in or take the line out")
    if "\0" in text:
        reason = (
            f"the {role} holds a NUL character (U+0000) as character {text.index(chr(0)) + 1}, which PostgreSQL cannot "
            "store; take it out"
        )
        return Problem(Reject.NUL, reason)
    return None


def reject(position: int, line: int, code: Reject, reason: str) -> Rejected:
    """A rejected line without a valid id."""
    return Rejected(position, None, False, line, code, reason)


def duplicate(record: Record, first_line: int, line_name: LineName | None = None) -> Rejected:
    """The rejection of a record whose id an earlier line has. `line_name`: names a line for people."""
    line_name = line_name or (lambda line: f"line {line}")
    taken, way_out = f"was used before, on {line_name(first_line)}", "change one of the two"
    what = f"the id {quoted(record.external_id or '')} {taken}"
    if type(record) is Document and record.unnamed:
        what, way_out = f"the line has no id, and its line number {record.line}, used as id, {taken}", "give it one"
    return reject(record.position, record.line, Reject.DUPLICATE_ID, f"{what}; {way_out}")


def quoted(value: str | bytes, width: int = 60) -> str:
    """A text of the corpus for a message: quoted, shortened, control characters escaped."""
    text = value[: 4 * width].decode("utf-8", "replace") if isinstance(value, bytes) else value
    return repr(text if len(text) <= width else text[: width - 1] + "…")


def listed(names: Sequence[str], most: int) -> str:
    """The first few of these names, joined for a message."""
    return ", ".join(quoted(name, 30) for name in names[:most]) + (", ..." if len(names) > most else "")


def repeated(names: Sequence[str]) -> str | None:
    """The first name that stands among those before it."""
    return next((name for index, name in enumerate(names) if name in names[:index]), None)


def kind_of(value: object) -> str:
    """JSON's name for the type of a value."""
    for kind, name in KINDS.items():
        if isinstance(value, kind):
            return name
    return "a number"


# bool first: in Python it is an integer.
KINDS: dict[type, str] = {bool: "a boolean", dict: "an object", list: "a list", str: "a string", type(None): "null"}


def _no_text(field: str, role: str, fields: Mapping[str, Any]) -> str:
    found = [f"{name}.{inner}" for name, value in fields.items() if type(value) is dict for inner in islice(value, 3)]
    found = [*(name for name, value in fields.items() if type(value) is not dict), *found]
    there = f"it has {listed(found, 5)}; name the right one with --{role}-field" if fields else "write one"
    if role == "text" and isinstance(fields.get("messages"), list):
        there = "it has messages, which --task generate --chat takes"
    return f"there is no text in the field {quoted(field)} ({there})"
