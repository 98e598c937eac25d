"""Documents as a list shows them: the beginnings of long texts, or the parts that were searched for."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, case, func, literal, null, select

from jobs.spec import has_payload
from jobs.store.report.documents.export import OK, WAITING
from jobs.store.report.job_summary import JobSummary
from jobs.store.schema.result_tables import Ranking, Translation
from jobs.store.schema.results import RESULTS, is_of_document
from jobs.store.schema.tables import Document
from jobs.tasks.kind import Kind

EXCERPT = 360  # characters of a text
CONTEXT = 90  # characters before what was searched for
WHOLE = 20_000  # characters: a payload that is JSON is read as a whole up to here


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A part of a text, and where in the text it begins."""

    text: str
    start: int  # in characters, from 0
    length: int  # of the whole text, in characters

    @property
    def is_whole(self) -> bool:
        return self.start == 0 and len(self.text) == self.length


@dataclass(frozen=True, slots=True)
class ListedDocument:
    position: int
    id: str | None
    line: int
    status: str
    error_code: str | None
    error: str | None
    source: Excerpt | None  # None: the line could not be read
    payload: str | None  # instead of `source`, of a pair or a query: the JSON, where it is not too long
    translation: Excerpt | None
    via: Excerpt | None  # the text between two models, where it has what was searched for
    candidates: str | None  # of a ranking: JSON
    flags: tuple[str, ...]
    perplexity: float | None
    num_tokens: int | None  # the document's length
    values: Mapping[str, Any]  # fields of its result, from which its numbers follow; empty without a result


def read_listed(
    connection: Connection, job: JobSummary, positions: Sequence[int], search: str = ""
) -> list[ListedDocument]:
    """The documents at these positions, in this order. `search`: what the excerpts show, if a text has it."""
    if not positions:
        return []
    result = RESULTS[job.task]
    is_sqlite = connection.dialect.name == "sqlite"
    is_payload = has_payload(job.task, json.loads(job.options))
    columns: list[Any] = [
        *(Document.position, Document.external_id, Document.line, Document.error_code, Document.error),
        case((result.position.is_not(None), OK), else_=func.coalesce(Document.status, WAITING)).label("status"),
        *_excerpt("source", Document.text, search, is_sqlite),
        (case((func.length(Document.text) <= WHOLE, Document.text)) if is_payload else null()).label("payload"),
        result.flags,
        *_result_columns(result, search, is_sqlite),
        *_excerpt("via", Translation.via if search and result.kind.is_between_languages else null(), search, is_sqlite),
    ]
    statement = (
        select(*columns)
        .join_from(Document, result, is_of_document(result), isouter=True)
        .where(Document.job_id == job.job_id, Document.position.in_(positions))
    )
    found = {row["position"]: _listed(row, search, result.kind) for row in connection.execute(statement).mappings()}
    return [found[position] for position in positions if position in found]


def _result_columns(result: Any, search: str, is_sqlite: bool) -> list[Any]:
    kind: Kind = result.kind
    text: list[Any] = [null().label(f"translation_{name}") for name in ("text", "start", "length")]
    if kind.text is not None:
        text = _excerpt("translation", getattr(result, kind.text), search, is_sqlite)
    candidates = Ranking.candidates if kind.has_candidates else null()
    values = (getattr(result, name).label(f"value_{name}") for name in _values(kind))
    return [*text, candidates.label("candidates"), *values]


def _values(kind: Kind) -> Sequence[str]:
    """The fields of a result that its numbers are made of."""
    names = [kind.mean.total, kind.mean.count] if kind.mean else []
    names += [kind.length] if kind.length else []
    return [*dict.fromkeys([*names, *(name for measure in kind.columns for name in measure.fields)])]


def _excerpt(name: str, text: Any, search: str, is_sqlite: bool) -> list[ColumnElement[Any]]:
    """A part of a text, its start from 1, and the length of the whole."""
    start: ColumnElement[Any] = literal(1)
    if search:
        lowered = func.lower(text if is_sqlite else text.collate("C"))
        found_at = (func.instr if is_sqlite else func.strpos)(lowered, ascii_lower(search))
        start = case((found_at > CONTEXT, found_at - CONTEXT), else_=1)
    parts = (func.substr(text, start, EXCERPT), start, func.length(text))
    return [part.label(f"{name}_{what}") for part, what in zip(parts, ("text", "start", "length"), strict=True)]


def ascii_lower(text: str) -> str:
    """A to Z as a to z, as the databases compare texts; other letters stay."""
    return "".join(sign.lower() if "A" <= sign <= "Z" else sign for sign in text)


def _listed(row: Mapping[Any, Any], search: str, kind: Kind) -> ListedDocument:
    via = _part(row, "via")
    values = {name: row[f"value_{name}"] for name in _values(kind)} if row["status"] == OK else {}
    return ListedDocument(
        position=row["position"],
        id=row["external_id"],
        line=row["line"],
        status=row["status"],
        error_code=row["error_code"],
        error=row["error"],
        source=_part(row, "source"),
        payload=row["payload"],
        translation=_part(row, "translation"),
        via=via if via and ascii_lower(search) in ascii_lower(via.text) else None,
        candidates=row["candidates"],
        flags=tuple((row["flags"] or "").split()),
        perplexity=kind.mean.perplexity_of(values) if kind.mean and values else None,
        num_tokens=values.get(kind.length or ""),
        values=values,
    )


def _part(row: Mapping[Any, Any], name: str) -> Excerpt | None:
    text = row[f"{name}_text"]
    return None if text is None else Excerpt(text, row[f"{name}_start"] - 1, row[f"{name}_length"])
