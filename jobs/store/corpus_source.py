"""What a job knows of the corpus that it was made of."""

from dataclasses import dataclass

from sqlalchemy import Connection, select

from jobs.store.schema.tables import Document, Job


@dataclass(frozen=True, slots=True)
class CorpusSource:
    """How a corpus was read, and what tells it from another."""

    reading: str | None  # JSON, see `jobs.corpus.original.CorpusLayout`
    digest: str  # sha256 of its bytes
    first_line: int  # of its first document
    has_ids: bool  # some document has one


def find_source(connection: Connection, job_id: int) -> CorpusSource:
    """Of a job that there is."""
    job = connection.execute(select(Job.reading, Job.corpus_digest).where(Job.id == job_id)).one()
    of_job = Document.job_id == job_id
    first = connection.execute(select(Document.line).where(of_job).order_by(Document.position).limit(1)).scalar()
    named = select(Document.position).where(of_job, ~Document.unnamed).order_by(Document.position).limit(1)
    return CorpusSource(job.reading, job.corpus_digest, first or 1, connection.execute(named).first() is not None)
