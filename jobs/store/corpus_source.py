"""The corpus that a job was made of, as far as the job has stored it."""

from dataclasses import dataclass

from sqlalchemy import Connection, select

from jobs.store.schema.tables import Document, Job


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
