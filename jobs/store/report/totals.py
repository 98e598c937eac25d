"""The measures of a scoring job as a whole, or of its documents by one of their fields: sums first, division last."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from sqlalchemy import Connection, func, select

from jobs import measures
from jobs.errors import SpecError
from jobs.json_numbers import read_value
from jobs.spec import Task
from jobs.store.report.job_summary import JobSummary
from jobs.store.schema.results import is_of_document
from jobs.store.schema.tables import Document, Score
from jobs.store.where.fields import field_of, resolve
from jobs.store.where.grammar import read_name

LEAST_INTEGER, GREATEST_INTEGER = -(1 << 63), (1 << 64) - 1  # that JSON's writers have


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
    """The same for each value of a field that the corpus' lines have besides; raise SpecError where none has it.

    Equal numbers are one value however they are written; a text that says the same is another."""
    _require_scores(job)
    path = resolve(connection, job.job_id, read_name(field))
    value = field_of(Document.__table__.c.fields, path, connection.dialect.name)
    kinds = {"number": value.number, "text": value.text, "truth": value.truth, "rest": value.rest}
    rows = connection.execute(
        select(*(one.label(f"group_{kind}") for kind, one in kinds.items()), *_sums())
        .join_from(Score, Document, is_of_document(Score))
        .where(Score.job_id == job.job_id)
        .group_by(*(f"group_{kind}" for kind in kinds))
    )
    found = [_read(_group(*row[: len(kinds)]), row[len(kinds) :]) for row in rows]
    return sorted(found, key=lambda one: _rank(one.group))


def _require_scores(job: JobSummary) -> None:
    if job.task != Task.SCORE:
        raise SpecError(f"job {job.label} has no scores to sum up: its task is {job.task}")


def _read(group: Any, row: Sequence[Any]) -> Totals:
    documents, unscored, num_tokens, num_words, num_bytes, nll_sum = row
    return Totals(
        group=group,
        documents=int(documents),
        unscored=int(unscored),
        num_tokens=int(num_tokens),
        num_words=int(num_words),
        num_bytes=int(num_bytes),
        nll_sum=float(nll_sum),
    )


def _group(number: Any, text: str | None, truth: bool | None, rest: str | None) -> Any:
    """The one that is not null, as JSON says it. An integer beyond 64 bits is a Fragment where the database knows each
    digit of it (PostgreSQL), and a double where it does not (SQLite)."""
    if number is not None:
        return _number(number)
    if truth is not None:
        return bool(truth)
    return text if rest is None else read_value(rest)


def _number(number: Any) -> int | float | str | orjson.Fragment:
    if not math.isfinite(number):
        return str(float(number))  # more than JSON's readers hold
    if number != int(number):
        return float(number)
    if LEAST_INTEGER <= number <= GREATEST_INTEGER:
        return int(number)
    return number if isinstance(number, float) else orjson.Fragment(str(number))


def _rank(group: Any) -> tuple[int, float, str]:
    """Numbers as they grow, then the rest by how it is written; documents without the field last."""
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
