"""The measures of a scoring job as a whole, or of its documents by one of their fields: sums first, division last."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from sqlalchemy import ColumnElement, Connection, Text, case, cast, func, literal, select
from sqlalchemy.dialects import postgresql

from jobs import measures
from jobs.errors import SpecError
from jobs.spec import Task
from jobs.store.progress import JobSummary
from jobs.store.results import is_of_document
from jobs.store.tables import Document, Score


@dataclass(frozen=True, slots=True)
class Totals:
    """The sums over some documents, and what follows from them. Documents without a result are in no sum."""

    group: Any  # what the field holds; None where it is missing, and for the whole job
    documents: int  # of which at least a token was scored
    unscored: int  # with a result, though no token of them could be scored
    num_tokens: int
    num_words: int
    num_bytes: int
    nll_sum: float

    @property
    def perplexity(self) -> float | None:
        return measures.perplexity(self.nll_sum, self.num_tokens)

    @property
    def word_perplexity(self) -> float | None:
        return measures.perplexity(self.nll_sum, self.num_words)

    @property
    def byte_perplexity(self) -> float | None:
        return measures.perplexity(self.nll_sum, self.num_bytes)

    @property
    def bits_per_byte(self) -> float | None:
        return measures.bits_per_byte(self.nll_sum, self.num_bytes)


def totals(connection: Connection, job: JobSummary) -> Totals:
    """Of all documents of a job that have a result; raise SpecError for a job that scores nothing."""
    _require_scores(job)
    return _read(None, connection.execute(select(*_sums()).where(Score.job_id == job.job_id)).one())


def totals_by(connection: Connection, job: JobSummary, field: str) -> list[Totals]:
    """The same for each value of a field that the corpus' lines have besides, by what the value says."""
    _require_scores(job)
    value = _value_of(connection, field)
    rows = connection.execute(
        select(value.label("value"), *_sums())
        .join_from(Score, Document, is_of_document(Score))
        .where(Score.job_id == job.job_id)
        .group_by("value")
    )
    found = [_read(value, sums) for value, *sums in rows]
    return sorted(found, key=lambda one: (one.group is None, str(one.group), type(one.group).__name__))


def _require_scores(job: JobSummary) -> None:
    if job.task != Task.SCORE:
        raise SpecError(f"job {job.label} has no scores to sum up: its task is {job.task}")


def _read(value: str | None, row: Sequence[Any]) -> Totals:
    documents, unscored, num_tokens, num_words, num_bytes, nll_sum = row
    return Totals(
        group=None if value is None else orjson.loads(value),
        documents=int(documents),
        unscored=int(unscored),
        num_tokens=int(num_tokens),
        num_words=int(num_words),
        num_bytes=int(num_bytes),
        nll_sum=float(nll_sum),
    )


def _sums() -> tuple[Any, ...]:
    return (
        func.count().filter(Score.num_tokens > 0),
        func.count().filter(Score.num_tokens == 0),
        *(func.coalesce(func.sum(column), 0) for column in (Score.num_tokens, Score.num_words, Score.num_bytes)),
        func.coalesce(func.sum(Score.nll_sum), 0.0),
    )


def _value_of(connection: Connection, field: str) -> ColumnElement[Any]:
    """JSON of the field's value, which tells the text 1 from the number; null where there is none."""
    if '"' in field or "\\" in field or not field.isprintable():
        raise SpecError(f"a field of the name {field!r} cannot be asked for: it holds a quote, or what is no letter")
    path = literal(f'$."{field}"')
    if connection.dialect.name == "sqlite":
        # json_extract makes 1 of true, and json_quote text of any other value again.
        kind, value = func.json_type(Document.fields, path), func.json_extract(Document.fields, path)
        written: ColumnElement[Any] = case((kind.in_(["true", "false"]), kind), else_=func.json_quote(value))
    else:
        value = func.jsonb_path_query_first(cast(Document.fields, postgresql.JSONB), cast(path, postgresql.JSONPATH))
        written = cast(value, Text)
    return func.nullif(written, "null")
