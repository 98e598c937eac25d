"""
The documents of two jobs side by side, page by page, in the order of the first job and in bounded memory.

    first job     position > ... limit       by the primary key
    second job    ids of that page           by the unique index over job and id; or by position

A page is read in one transaction. Each page is two statements, not a join: a server that took a join of two jobs for
small would hash ten million documents for each page.

Knows: tables of results. Does not know: what is compared.
"""

import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson
from sqlalchemy import JSON, Connection, Integer, Select, Text, and_, bindparam, cast, column, func, null, select
from sqlalchemy.orm import InstrumentedAttribute
from sqlalchemy.types import TypeEngine

from jobs.errors import SpecError
from jobs.store.database import Database
from jobs.store.report.documents.export import FIRST_PAGE, next_page
from jobs.store.report.job_summary import JobSummary
from jobs.store.schema.results import RESULTS, ResultTable, is_of_document
from jobs.store.schema.tables import Document, Job
from jobs.store.where.fields import field_of, resolve
from jobs.store.where.grammar import read_name
from jobs.tolerance import MAX_REJECTED

LARGEST_PAGE = 2_000
SEARCHED_FOR_IDS = 1_000  # first documents of a job, among which an id of the corpus is looked for

# The columns of a result that a comparison needs.
COMPARED: Mapping[ResultTable, tuple[InstrumentedAttribute[Any], ...]] = {
    table: tuple(getattr(table, name) for name in table.kind.compared) for table in RESULTS.values()
}


class MatchedBy(enum.StrEnum):
    """How the documents of two jobs are matched."""

    ID = "id"  # of the corpus
    POSITION = "position"  # in the corpus, where neither corpus has ids


@dataclass(frozen=True, slots=True)
class Matching:
    """How the documents of two jobs are matched, and what is read of them."""

    by: MatchedBy
    with_texts: bool  # the jobs have different corpora: compare the texts of documents too
    reference: tuple[str, ...] | None = None  # path of a field to read


class Matched(NamedTuple):
    """A document of the first job, and the same one in the second."""

    position: int  # in the first job
    id: str | None
    a: Sequence[Any] | None  # columns of its result (`COMPARED`); None without one
    other_position: int | None  # in the second job; None where that does not have it
    b: Sequence[Any] | None
    has_same_text: bool  # True unless the texts were compared and differ
    reference: str | None


class Detail(NamedTuple):
    """The columns of a document that a difference shows."""

    text: str | None  # its payload
    result: Sequence[Any]


def find_matching(connection: Connection, first: JobSummary, second: JobSummary, reference: str | None) -> Matching:
    """How these jobs are matched. Raises SpecError where one corpus has ids and the other has none, and where no
    document of the first job has the field `reference`."""
    have_ids = [_has_ids(connection, job.job_id) for job in (first, second)]
    if have_ids[0] != have_ids[1]:
        named, unnamed = (first, second) if have_ids[0] else (second, first)
        raise SpecError(
            f"the corpus of job {named.label} has ids and that of job {unnamed.label} has none, so their documents "
            "cannot be matched: submit both with the same --id-field"
        )
    corpora = [_corpus(connection, job) for job in (first, second)]
    path = None if reference is None else resolve(connection, first.job_id, read_name(reference))
    return Matching(
        by=MatchedBy.ID if have_ids[0] else MatchedBy.POSITION,
        with_texts=not corpora[0][0] or corpora[0] != corpora[1],
        reference=path,
    )


def matched_pages(
    database: Database, first: JobSummary, second: JobSummary, how: Matching, largest_page: int = LARGEST_PAGE
) -> Iterator[list[Matched]]:
    """Every document of the first job, with the same document of the second where there is one."""
    width = len(COMPARED[RESULTS[first.task]])
    dialect = database.engine.dialect.name
    mine = _page(first, how, dialect)
    theirs = _same_documents(second, how, dialect)
    after, limit = -1, min(FIRST_PAGE, largest_page)
    while True:
        with database.reading() as connection:
            rows = connection.execute(mine, {"after": after, "limit": limit}).all()
            if not rows:
                return
            keys = [row.key for row in rows if row.key is not None]
            found = {row.key: row for row in connection.execute(theirs, {"keys": _as_list(keys)})}
        size = sum(len(value) for row in (*rows, *found.values()) for value in row if isinstance(value, str))
        yield [_match(row, found.get(row.key), width) for row in rows]
        after = rows[-1].position
        limit = next_page(len(rows), size, largest_page)


def read_details(connection: Connection, job: JobSummary, positions: Sequence[int]) -> dict[int, Detail]:
    """The documents at these positions, of which there are few; without those that have no result."""
    result = RESULTS[job.task]
    keys = _listed(Integer(), connection.dialect.name)
    statement = (
        select(result.position, Document.text, *COMPARED[result])
        .select_from(keys)
        .outerjoin(Document, and_(Document.job_id == job.job_id, Document.position == keys.c.value))
        .outerjoin(result, is_of_document(result))
    )
    found: dict[int, Detail] = {}
    for start in range(0, len(positions), LARGEST_PAGE):
        part = _as_list(positions[start : start + LARGEST_PAGE])
        for position, text, *values in connection.execute(statement, {"keys": part}):
            found[position] = Detail(text, values)
    found.pop(None, None)  # type: ignore[call-overload]  # positions without a result
    return found


def _corpus(connection: Connection, job: JobSummary) -> tuple[str, dict[str, Any]]:
    """The digest of a job's corpus, and how it was read; how many lines might be rejected is no part of that."""
    digest = connection.execute(select(Job.corpus_digest).where(Job.id == job.job_id)).scalar_one()
    reading = orjson.loads(job.reading or "{}")
    return digest, {name: value for name, value in reading.items() if name != MAX_REJECTED}


def _has_ids(connection: Connection, job_id: int) -> bool:
    """Whether one of a job's first documents has an id of the corpus."""
    first = select(Document.unnamed, Document.external_id).where(Document.job_id == job_id)
    first = first.order_by(Document.position).limit(SEARCHED_FOR_IDS)
    return any(row.external_id is not None and not row.unnamed for row in connection.execute(first))


def _page(job: JobSummary, how: Matching, dialect: str) -> Select[Any]:
    """The first `:limit` documents of the first job after position `:after`."""
    result = RESULTS[job.task]
    reference: Any = null()
    if how.reference is not None:
        reference = field_of(Document.__table__.c.fields, how.reference, dialect).text
    return (
        select(*_columns(job, how, reference))
        .join_from(Document, result, is_of_document(result), isouter=True)
        .where(Document.job_id == job.job_id, Document.position > bindparam("after", type_=Integer()))
        .order_by(Document.position)
        .limit(bindparam("limit", type_=Integer()))
    )


def _same_documents(job: JobSummary, how: Matching, dialect: str) -> Select[Any]:
    """The documents of the second job whose keys are in `:keys`; a row of nulls for each key that it does not have.

    The keys are the left side of outer joins, which fixes the order in which a database looks things up. With
    `id IN (...)`, SQLite takes a job for ten documents, and reads it whole for each page: of a million, in 0.25 s.
    """
    result = RESULTS[job.task]
    by_id = how.by is MatchedBy.ID
    keys = _listed(Text() if by_id else Integer(), dialect)
    key = Document.external_id if by_id else Document.position
    return (
        select(*_columns(job, how, null()))
        .select_from(keys)
        .outerjoin(Document, and_(Document.job_id == job.job_id, key == keys.c.value))
        .outerjoin(result, is_of_document(result))
    )


def _columns(job: JobSummary, how: Matching, reference: Any) -> list[Any]:
    """position, id, key, text, reference, whether there is a result, and its columns."""
    result = RESULTS[job.task]
    return [
        Document.position,
        Document.external_id,
        (Document.external_id if how.by is MatchedBy.ID else Document.position).label("key"),
        (Document.text if how.with_texts else null()).label("text"),
        reference.label("reference"),
        result.position.is_not(None).label("has_result"),
        *COMPARED[result],
    ]


def _listed(kind: TypeEngine[Any], dialect: str) -> Any:
    """The values of the JSON list `:keys` as rows of one column `value`."""
    if dialect == "sqlite":
        return func.json_each(bindparam("keys", type_=Text())).table_valued(column("value", kind))
    elements = func.json_array_elements_text(cast(bindparam("keys", type_=Text()), JSON)).table_valued("value")
    return select(cast(elements.c.value, kind).label("value")).subquery()


def _as_list(keys: Sequence[Any]) -> str:
    return orjson.dumps(keys).decode()


NUM_OWN = 6  # columns of `_documents` before the columns of the result


def _match(row: Any, other: Any, width: int) -> Matched:
    a = row[NUM_OWN : NUM_OWN + width] if row.has_result else None
    if other is None:
        return Matched(row.position, row.external_id, a, None, None, True, row.reference)
    b = other[NUM_OWN : NUM_OWN + width] if other.has_result else None
    return Matched(row.position, row.external_id, a, other.position, b, row.text == other.text, row.reference)
