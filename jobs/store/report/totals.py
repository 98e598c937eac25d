"""The measures of a scoring job, as a whole or grouped by a field of its documents: sums first, division last."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from sqlalchemy import Connection, func, select

from jobs import measures
from jobs.errors import SpecError
from jobs.store.report.job_summary import JobSummary
from jobs.store.schema.result_tables import Score
from jobs.store.schema.results import is_of_document
from jobs.store.schema.tables import Document
from jobs.store.where.fields import field_of, resolve
from jobs.store.where.grammar import read_name
from jobs.text.json_numbers import read_value

LEAST_INTEGER, GREATEST_INTEGER = -(1 << 63), (1 << 64) - 1  # that orjson writes


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over documents, and the measures that follow from them. Documents without a result are in no sum."""

    group: Any  # value of the field; None where it is missing, and for the whole job
    documents: int  # with at least one scored token
    unscored: int  # with a result, but without a scored token
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
    """Totals of all documents of a job that have a result. Raises SpecError for a job of another task."""
    _require_scores(job)
    return _read(None, connection.execute(select(*_sums()).where(Score.job_id == job.job_id)).one())


def totals_by(connection: Connection, job: JobSummary, field: str) -> list[Totals]:
    """Totals for each value of another field of the corpus. Raises SpecError where no document has the field.

    Equal numbers are one value however they are written; a text with the same digits is another value.
    """
    _require_scores(job)
    path = resolve(connection, job.job_id, read_name(field))
    value = field_of(Document.__table__.c.fields, path, connection.dialect.name)
    kinds = {"number": value.number, "text": value.text, "truth": value.truth, "rest": value.rest}
    rows = connection.execute(
        select(*(column.label(f"group_{kind}") for kind, column in kinds.items()), *_sums())
        .join_from(Score, Document, is_of_document(Score))
        .where(Score.job_id == job.job_id)
        .group_by(*(f"group_{kind}" for kind in kinds))
    )
    found = [_read(_group(*row[: len(kinds)]), row[len(kinds) :]) for row in rows]
    return sorted(found, key=lambda totals: _rank(totals.group))


def _require_scores(job: JobSummary) -> None:
    if not job.kind.has_totals:
        raise SpecError(f"job {job.label} has no scores to sum up: its task is {job.task}")


def _read(group: Any, row: Sequence[Any]) -> Totals:
    documents, unscored, tokens, words, num_bytes = map(int, row[:-1])  # in the order of `_sums`
    return Totals(group, documents, unscored, tokens, words, num_bytes, float(row[-1]))


def _group(number: Any, text: str | None, truth: bool | None, rest: str | None) -> Any:
    """The value of a group for JSON: of its columns the one that is not null. An integer beyond 64 bits is a Fragment
    where the database has all its digits (PostgreSQL), and a double where it does not (SQLite)."""
    if number is not None:
        return _number(number)
    if truth is not None:
        return bool(truth)
    return text if rest is None else read_value(rest)


def _number(number: Any) -> int | float | str | orjson.Fragment:
    if not math.isfinite(number):
        return str(float(number))  # JSON has no infinity
    if number != int(number):
        return float(number)
    if LEAST_INTEGER <= number <= GREATEST_INTEGER:
        return int(number)
    return number if isinstance(number, float) else orjson.Fragment(str(number))


def _rank(group: Any) -> tuple[int, float, str]:
    """The sort key of a group: numbers in ascending order, then other values by their JSON, then None."""
    if group is None:
        return 2, 0.0, ""
    written = orjson.dumps(group).decode()
    is_number = isinstance(group, int | float | orjson.Fragment) and not isinstance(group, bool)
    return (0, float(written), written) if is_number else (1, 0.0, written)


def _sums() -> tuple[Any, ...]:
    return (
        func.count().filter(Score.num_tokens > 0),
        func.count().filter(Score.num_tokens == 0),
        *(func.coalesce(func.sum(column), 0) for column in (Score.num_tokens, Score.num_words, Score.num_bytes)),
        func.coalesce(func.sum(Score.nll_sum), 0.0),
    )
