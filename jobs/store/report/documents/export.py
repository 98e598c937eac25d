"""The documents of a job with their results, in the order of the corpus, in bounded memory."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Integer,
    Row,
    Select,
    bindparam,
    case,
    func,
    literal,
    null,
    select,
    true,
)
from sqlalchemy.orm import aliased

from jobs.choices import Only
from jobs.store.database import Database
from jobs.store.schema.results import EXPORTED, ResultTable, is_of_document, results_of
from jobs.store.schema.states import DocumentStatus
from jobs.store.schema.tables import Document, Job
from jobs.store.where.condition import Condition
from jobs.store.where.values import VIEW
from jobs.text.json_numbers import read_fields

OK, WAITING = "ok", "waiting"
FIRST_PAGE = 100  # rows; the size of later pages depends on the length of these
LARGEST_PAGE = 5_000
CHARACTERS_PER_PAGE = 4_000_000
CHARACTERS_OF_FIRST = 64_000_000
DIGITS_OF_INT64 = 18  # at least
NUM_OWN = 11  # columns of the document, `status` last, before the columns of its result


@dataclass(frozen=True, slots=True)
class ExportedDocument:
    """A document, and its result or why it has none."""

    position: int
    external_id: str | None
    numeric_id: bool  # the corpus wrote the id as a number
    unnamed: bool  # the corpus has none, and the id is the number of the line
    line: int
    fields: str | None  # JSON: the line's other fields
    error_code: str | None
    error: str | None
    text: str | None  # its payload; only with `with_text`
    next_line: int | None  # where the next document begins; only with `with_next_line`
    status: str  # ok | waiting | a DocumentStatus
    result: Mapping[
        str, Any
    ]  # columns of the table of results (`jobs.store.schema.results.EXPORTED`); empty without a result


def read_documents(
    database: Database,
    job_id: int,
    *,
    only: Only | None = None,
    condition: Condition | None = None,
    with_text: bool = False,
    text_of: int | None = None,
    with_next_line: bool = False,
    start: int = 0,
) -> Iterator[ExportedDocument]:
    """The documents of a job by position, from that of `start` on. Each page is read in its own transaction, so that a
    slow reader delays neither a checkpoint nor a vacuum. A result never changes, so a finished job reads the same every
    time. `text_of`: the job whose texts are read, such as the first one of a chain; None: this one.

    A page is a number of matching documents; with a condition, the matching ones among a number of positions. (For a
    LIMIT behind a condition, a database that expects few matches reads all remaining documents for each page.)
    """
    with database.reading() as connection:
        result = results_of(connection, job_id)
        last = connection.execute(select(func.max(Document.position)).where(Document.job_id == job_id)).scalar()
    dialect = database.engine.dialect.name
    own = Document.text.expression if text_of in (None, job_id) else _text(text_of)
    text = own if with_text else null()
    statement = _documents(job_id, result, only, condition, text, with_next_line, dialect)
    names = names_of_result(result)
    after, limit = start - 1, FIRST_PAGE
    while True:
        with database.reading() as connection:
            rows = connection.execute(statement, {"after": after, "limit": limit}).all()
        if not rows and condition is None:
            return
        size = 0
        for row in rows:
            size += sum(len(value) for value in row if isinstance(value, str))
            yield exported(row, names)
        after = rows[-1].position if condition is None else after + limit
        if condition is not None and after >= (-1 if last is None else last):
            return
        limit = next_page(len(rows), size, LARGEST_PAGE)


def exported(row: Row[Any], names: Sequence[str]) -> ExportedDocument:
    """A row of `documents_with_results` as a document; the `names_of_result`."""
    found = dict(zip(names, row[NUM_OWN:], strict=True)) if row[NUM_OWN - 1] == OK else {}
    values = (*row[:NUM_OWN], found)
    return ExportedDocument(*values)


def names_of_result(result: ResultTable) -> list[str]:
    """The names of the columns that an export reads of a result."""
    return [column.key for column in EXPORTED[result]]


def next_page(num_rows: int, num_characters: int, largest: int) -> int:
    """How many rows the next page has, by the characters of this one."""
    return max(1, min(largest, CHARACTERS_PER_PAGE * num_rows // max(num_characters, 1))) if num_rows else largest


def field_names(database: Database, job_id: int, among: int = 100) -> list[str]:
    """Names of the other fields of a job's first documents, in the order in which they occur."""
    with database.reading() as connection:
        return names_of_fields(connection, job_id, among)


def names_of_fields(connection: Connection, job_id: int, among: int = 100) -> list[str]:
    """`field_names` within the transaction of a connection."""
    first = select(Document.fields).where(Document.job_id == job_id).order_by(Document.position).limit(among)
    names: dict[str, None] = {}
    for text in connection.execute(first).scalars():
        names.update(dict.fromkeys(read_fields(text)))
    return list(names)


def first_fields(database: Database, job_id: int, among: int | None = 10_000) -> Iterator[dict[str, Any]]:
    """The other fields of a job's first documents, or with None of all. Of fewer where they are long."""
    after, size = -1, 0
    while among is None or (after + 1 < among and size < CHARACTERS_OF_FIRST):
        first = select(Document.fields).where(
            Document.job_id == job_id, Document.position > after, Document.position <= after + FIRST_PAGE
        )
        with database.reading() as connection:
            found = connection.execute(first.order_by(Document.position)).scalars().all()
        if not found:
            return
        for text in found:
            size += len(text or "")
            yield read_fields(text)
        after += FIRST_PAGE


def has_integer_ids(database: Database, job_id: int) -> bool:
    """Whether each document of a job that has an id has an integer of 64 bits for one (line numbers are). Reads all
    documents of the job, or up to the first that has another."""
    of_job = (Document.job_id == job_id) & Document.external_id.is_not(None)
    other = ~Document.numeric_id | (func.length(Document.external_id) > DIGITS_OF_INT64)
    with database.reading() as connection:
        return connection.execute(select(Document.position).where(of_job, other).limit(1)).first() is None


def _documents(
    job_id: int,
    result: ResultTable,
    only: Only | None,
    condition: Condition | None,
    text: ColumnElement[Any],
    with_next_line: bool,
    dialect: str,
) -> Select[Any]:
    """One page: the first `:limit` documents after position `:after`; the columns of ExportedDocument, then those of
    the result."""
    document, following = Document, aliased(Document)
    after, limit = bindparam("after", type_=Integer()), bindparam("limit", type_=Integer())
    next_line = select(following.line).where(
        following.job_id == document.job_id, following.position == document.position + 1
    )
    statement, status = documents_with_results(
        job_id, result, text, next_line.scalar_subquery() if with_next_line else null()
    )
    statement = statement.where(document.position > after)
    if condition is None:
        return statement.where(_wanted(status, only)).limit(limit)
    here = (VIEW.c.job_id == job_id, VIEW.c.position > after, VIEW.c.position <= after + limit)
    matching = select(VIEW.c.position).where(*here, _wanted(VIEW.c.status, only), condition.clause(dialect))
    return statement.where(document.position <= after + limit, document.position.in_(matching))


def documents_with_results(
    job_id: int, result: ResultTable, text: ColumnElement[Any], next_line: ColumnElement[Any]
) -> tuple[Select[Any], ColumnElement[Any]]:
    """The documents of a job by position, each with the columns of ExportedDocument, then those of the result; and the
    column of the status."""
    document = Document
    status = case((result.position.is_not(None), literal(OK)), else_=func.coalesce(document.status, WAITING))
    statement: Select[Any] = (
        select(
            *(document.position, document.external_id, document.numeric_id, document.unnamed, document.line),
            *(document.fields, document.error_code, document.error),
            *(text, next_line, status),
            *EXPORTED[result],
        )
        .join_from(document, result, is_of_document(result), isouter=True)
        .where(document.job_id == job_id)
        .order_by(document.position)
    )
    return statement, status


def _text(job_id: int | None) -> ColumnElement[Any]:
    """The text of the document at the same position of a job."""
    same = aliased(Document)
    return select(same.text).where(same.job_id == job_id, same.position == Document.position).scalar_subquery()


def _wanted(status: ColumnElement[Any], only: Only | None) -> ColumnElement[bool]:
    if only is Only.OK:
        return status == OK
    if only is Only.FAILED:
        return status.not_in([OK, WAITING, DocumentStatus.SKIPPED])
    if only is Only.ALL:
        return true()
    if only is Only.WAITING:
        return status == WAITING
    return status.not_in([WAITING, DocumentStatus.SKIPPED])


@dataclass(frozen=True, slots=True)
class CorpusSource:
    """How a corpus was read, and how to recognize it."""

    reading: str | None  # JSON, see `jobs.corpus.original.CorpusLayout`
    digest: str  # sha256 of its bytes
    first_line: int  # line of its first document
    has_ids: bool  # whether any document has an id of the corpus


def find_source(connection: Connection, job_id: int) -> CorpusSource:
    """The source of an existing job."""
    job = connection.execute(select(Job.reading, Job.corpus_digest).where(Job.id == job_id)).one()
    of_job = Document.job_id == job_id
    first = connection.execute(select(Document.line).where(of_job).order_by(Document.position).limit(1)).scalar()
    named = select(Document.position).where(of_job, ~Document.unnamed).order_by(Document.position).limit(1)
    return CorpusSource(job.reading, job.corpus_digest, first or 1, connection.execute(named).first() is not None)
