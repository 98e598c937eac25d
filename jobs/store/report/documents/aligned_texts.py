"""The texts of a translating job with their translations and the borders of their sentences."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from sqlalchemy import select

from jobs.store.database import Database
from jobs.store.report.documents.export import FIRST_PAGE, LARGEST_PAGE, next_page
from jobs.store.schema.results import is_of_document, results_of
from jobs.store.schema.tables import Document


class AlignedTexts(NamedTuple):
    """A document, its translation, and where each sentence is in both: the JSON of `translations.segments`."""

    position: int
    text: str
    translation: str
    segments: str


def aligned_texts(database: Database, job_id: int) -> Iterator[AlignedTexts]:
    """The translated documents of a job by position, in bounded memory; without those whose sentences have no borders,
    as in results of older versions and of servers."""
    with database.reading() as connection:
        result: Any = results_of(connection, job_id)  # of a translating job, which has these columns
    after, limit = -1, FIRST_PAGE
    while True:
        page = (
            select(Document.position, Document.text, result.text, result.segments)
            .join(result, is_of_document(result))
            .where(Document.job_id == job_id, Document.position > after)
            .order_by(Document.position)
            .limit(limit)
        )
        with database.reading() as connection:
            rows = connection.execute(page).all()
        if not rows:
            return
        yield from (AlignedTexts(*row) for row in rows if row[1] is not None and row[3])
        after = rows[-1].position
        limit = next_page(len(rows), sum(len(row[1] or "") + len(row[2]) for row in rows), LARGEST_PAGE)
