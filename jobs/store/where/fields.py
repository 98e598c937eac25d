"""The other fields of a document in SQL: everything that its line in the corpus has besides id and payload.

A field has a path from the outermost object. Names are parameters, never SQL. Of two members with the same name the
last one counts, as in JSON parsers. U+0000, which PostgreSQL's texts cannot hold, is read as U+FFFD.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    JSON,
    ColumnElement,
    Connection,
    Integer,
    Numeric,
    Text,
    and_,
    case,
    cast,
    column,
    func,
    literal,
    literal_column,
    or_,
    select,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.types import TypeEngine

from jobs.errors import SpecError, meant
from jobs.store.schema.tables import Document
from jobs.store.where.tree import Name, spell
from jobs.store.where.values import COLUMNS, is_column

FIRST_DOCUMENTS = 100  # are searched for a field's name first; then all documents
NAMES_SHOWN = 12
LONGEST_NUMBER = 1000  # digits of a number that PostgreSQL casts as it is written

Path = tuple[str | int, ...]  # names of members of objects, and indices of lists, from 0


@dataclass(frozen=True, slots=True)
class CorpusField:
    """A field as SQL expressions. At most one of the last four is not null: a value has one kind."""

    is_there: ColumnElement[Any]  # whether the document has it, even as JSON's null
    is_null: ColumnElement[Any]  # whether it is JSON's null or missing
    number: ColumnElement[Any]  # numeric on PostgreSQL
    text: ColumnElement[Any]
    truth: ColumnElement[Any]
    rest: ColumnElement[Any]  # a list or an object, as JSON


def field_of(document: ColumnElement[Any], path: Path, dialect: str) -> CorpusField:
    """The field at `path` of a column that holds a JSON object or list, or null."""
    return _sqlite(document, path) if dialect == "sqlite" else _postgresql(document, path)


def number_in(written: ColumnElement[Any], dialect: str) -> ColumnElement[Any]:
    """The number that a text is in JSON's grammar; null for any other text."""
    if dialect == "sqlite":
        kind = case((func.json_valid(written) == 1, func.json_type(written)))
        return case((kind.in_(["integer", "real"]), func.json_extract(written, "$")))
    is_number = written.regexp_match(r"^[ \t\n\r]*-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?[ \t\n\r]*$")
    return case((is_number, _numeric(written)))


def resolve(connection: Connection, job_id: int, path: tuple[str, ...], among: int | None = None) -> tuple[str, ...]:
    """The path that some document of the job, or of its first `among` ones, has: one name with the dots in it, else
    `path` itself. Raises SpecError where no document has either."""
    candidates = [path] if len(path) == 1 else [(".".join(path),), path]
    first = select(Document.fields).where(Document.job_id == job_id).order_by(Document.position).limit(FIRST_DOCUMENTS)
    objects = [_read(text) for text in connection.execute(first).scalars() if text]
    for candidate in candidates:
        if any(has_path(fields, candidate) for fields in objects):
            return candidate
    for candidate in candidates:
        has_it = field_of(Document.__table__.c.fields, candidate, connection.dialect.name).is_there
        with_it = select(Document.position).where(Document.job_id == job_id, has_it).limit(1)
        if connection.execute(with_it if among is None else with_it.where(Document.position < among)).first():
            return candidate
    names = list(dict.fromkeys(spell_field(name) for fields in objects for name in fields))
    more = ", ..." if names[NAMES_SHOWN:] else ""
    known = f"there are {', '.join(names[:NAMES_SHOWN])}{more}" if names else "its lines have no other fields"
    nobody = "no document has" if among is None else f"none of the first {among:,} documents has"
    name = ".".join(path)
    raise SpecError(f"{nobody} {name!r}{meant(name, [*names, *COLUMNS])}; {known}")


def spell_field(name: str) -> str:
    """The name of a field of the outermost object as it is written in a condition."""
    return f"fields.{spell(name)}" if is_column(Name((name,))) else spell(name)


def _read(text: str) -> Mapping[str, Any]:
    """A line's other fields, numbers as texts: only names are needed, and a number may be too long for Python."""
    found = json.loads(text, parse_int=str, parse_float=str)
    return found if isinstance(found, dict) else {}


def has_path(value: Any, path: tuple[str, ...]) -> bool:
    """Whether nested objects have a member at this path."""
    for name in path:
        if not isinstance(value, dict) or name not in value:
            return False
        value = value[name]
    return True


def _sqlite(document: ColumnElement[Any], path: Path) -> CorpusField:
    """A field in SQLite's SQL. It is read with `json_each`, whose names are values: a JSON path cannot hold a quote."""
    whole = _without_nul(document, func.instr)
    for name in path[:-1]:
        members = _members(whole)
        inner = case((members.c.type.in_(["object", "array"]), members.c.value), else_="{}")
        whole = _last(inner, members, name)

    def value_where(*kinds: str) -> ColumnElement[Any]:
        members = _members(whole)
        return _last(case((members.c.type.in_(kinds), members.c.value)), members, path[-1])

    members = _members(whole)
    kind = _last(members.c.type, members, path[-1])
    return CorpusField(
        is_there=kind.is_not(None),
        is_null=func.coalesce(kind, "null") == "null",
        number=value_where("integer", "real"),
        text=value_where("text"),
        truth=value_where("true", "false"),
        rest=value_where("object", "array"),
    )


def _members(whole: ColumnElement[Any]) -> Any:
    return func.json_each(whole).table_valued("key", "value", "type", "id")


def _last(wanted: Any, members: Any, name: str | int) -> ColumnElement[Any]:
    chosen = select(wanted).where(members.c.key == _key(name)).order_by(members.c.id.desc()).limit(1)
    return chosen.scalar_subquery()


def _key(name: str | int) -> ColumnElement[Any]:
    return literal(name, Text() if isinstance(name, str) else Integer())


def _postgresql(document: ColumnElement[Any], path: Path) -> CorpusField:
    """A field in PostgreSQL's SQL. It has type json: jsonb refuses a whole document for one number that is too long."""
    value: ColumnElement[Any] = cast(_without_nul(document, func.strpos), JSON)
    for name in path:
        value = value.op("->", return_type=JSON())(_key(name))
    kind = func.json_typeof(value)
    return CorpusField(
        is_there=kind.is_not(None),
        is_null=func.coalesce(kind, "null") == "null",
        number=_evaluated_once(
            value, JSON(), lambda json: case((func.json_typeof(json) == "number", _numeric(_written(json))))
        ),
        text=_evaluated_once(value, JSON(), lambda json: case((func.json_typeof(json) == "string", _written(json)))),
        truth=_evaluated_once(
            value, JSON(), lambda json: case((func.json_typeof(json) == "boolean", _written(json) == "true"))
        ),
        rest=_evaluated_once(
            value, JSON(), lambda json: case((func.json_typeof(json).in_(["object", "array"]), _written(json)))
        ),
    )


def _written(value: ColumnElement[Any]) -> ColumnElement[Any]:
    """A text without quotes and escapes; any other value as its JSON."""
    return value.op("#>>", return_type=Text())(literal_column("'{}'"))


def _evaluated_once(
    value: ColumnElement[Any], kind: TypeEngine[Any], wanted: Callable[[ColumnElement[Any]], ColumnElement[Any]]
) -> ColumnElement[Any]:
    """An expression over a value that PostgreSQL evaluates once, however often the expression names it."""
    row = func.unnest(postgresql.array([value])).table_valued(column("value", kind)).render_derived()
    return select(wanted(row.c.value)).scalar_subquery()


def _numeric(written: ColumnElement[Any]) -> ColumnElement[Any]:
    """The number that a text is. A number too large for PostgreSQL's numeric (some 131,000 digits) is infinite, as one
    too large for a double (309 digits) is in SQLite."""
    return _evaluated_once(written, Text(), _numeric_of)


def _numeric_of(written: ColumnElement[Any]) -> ColumnElement[Any]:
    is_short = and_(func.length(written) < LONGEST_NUMBER, ~written.regexp_match(r"[eE][+-]?0*[1-9]\d{3}"))
    is_zero = or_(written.regexp_match(r"^\s*-?[0.]+([eE].*)?$"), written.regexp_match(r"[eE]-0*[1-9]\d{3}"))
    is_huge = or_(written.regexp_match(r"^\s*-?\d{200}\d{200}"), written.regexp_match(r"[eE]\+?0*[1-9]\d{3}"))
    infinite = case((written.regexp_match(r"^\s*-"), "-Infinity"), else_="Infinity")
    exponent = func.coalesce(func.substring(written, r"[eE].*$"), "")
    shortened = func.left(func.substring(written, r"^[^eE]*"), 900).concat(exponent)
    return cast(case((is_short, written), (is_zero, "0"), (is_huge, infinite), else_=shortened), Numeric)


def _without_nul(document: ColumnElement[Any], find: Any) -> ColumnElement[Any]:
    r"""JSON with U+FFFD for \u0000. Escaped backslashes are U+0001 meanwhile, which cannot occur in JSON."""
    nul, backslash, placeholder = r"\u0000", "\\\\", "\x01"
    hidden = func.replace(document, backslash, placeholder)
    cleaned = func.replace(func.replace(hidden, nul, "\ufffd"), placeholder, backslash)
    return case((find(document, nul) > 0, cleaned), else_=document)
