"""Constants whose meaning depends on their place: a time beside `finished_at`, a path, the numbers of `substr`."""

import re
from datetime import UTC, datetime

from sqlalchemy import Integer, Text, literal

from jobs.errors import SpecError
from jobs.store.where import tree
from jobs.store.where.fields import Path
from jobs.store.where.tree import Node, brief
from jobs.store.where.values import JSONS, MOMENT, Column, Value, is_column


def as_written(sign: str, a: Value, b: Value) -> Value:
    """The constant `b` for a comparison with `a`: in `id = 5`, where `id` is a text column, the text '5'."""
    if sign in ("=", "<>") and a.is_text_column and b.written is not None and b.number is not None:
        return _text(b.written)
    return b


def _text(written: str) -> Value:
    return Value(text=literal(written, Text()), written=written)


def as_moment(node: Node, a: Value, b: Value) -> Value:
    """The constant `b` for a comparison with `a`: beside `finished_at`, an ISO time (2026-01-31, or
    2026-01-31T10:00+02:00) in the view's own format, in UTC."""
    if not (isinstance(node, tree.Name) and a.is_text_column and node.path[0].lower() == MOMENT):
        return b
    if b.written is None or b.text is None:
        return b
    try:
        moment = datetime.fromisoformat(b.written)
    except ValueError:
        return b
    utc = moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)
    return _text(utc.isoformat(sep=" ", timespec="milliseconds"))


def json_path(document: Node, path: Node) -> tuple[str, Path]:
    """The name of the column and the steps of `json_extract(ranking, '$[0].score')`. Raises SpecError for other
    arguments."""
    if not (isinstance(document, tree.Name) and is_column(document) and document.path[0].lower() in JSONS):
        raise SpecError(f"--where: json_extract takes one of {', '.join(JSONS)}, and a path in single quotes")
    if not isinstance(path, tree.Text) or not _PATH.fullmatch(path.value):
        raise SpecError("--where: json_extract takes a path like '$.meta.lang' or '$[0].score'")
    steps = [
        int(place) if place else quoted or plain for plain, quoted, place in _STEP.findall(path.value.removeprefix("$"))
    ]
    return document.path[0].lower(), tuple(steps)


_STEP = re.compile(r'\.([^\s."\[\]]+)|\."([^"]*)"|\[(\d{1,9})\]')
_PATH = re.compile(rf"\$(?:{_STEP.pattern})+")


def substr_position(node: Node, place: int) -> Column:
    """The `place`th number of `substr(text, 2, 3)`, from 0."""
    return literal(whole_number(node, 0 if place else 1, 2**31 - 1), Integer())


def whole_number(node: Node, least: int, most: int) -> int:
    """The value of a constant; raises SpecError for any other node."""
    if isinstance(node, tree.Number) and node.written.isdigit() and least <= node.value <= most:
        return int(node.value)
    raise SpecError(f"--where: {brief(node)} is where a whole number from {least} to {most} is needed")
