"""The glossaries of jobs."""

from datetime import datetime

from sqlalchemy.orm import Mapped

from jobs.store.schema.declarative import Base, column


class StoredGlossary(Base):
    """A glossary, or terms that stay as they are: the options of its jobs name it by its digest, and workers read it
    here. It is deleted with the last job that has it."""

    __tablename__ = "glossaries"

    digest: Mapped[str] = column("sha256 of its terms", primary_key=True)
    terms: Mapped[int] = column("how many it has", unit="terms")
    content: Mapped[bytes] = column("its terms, a JSON list a line, compressed with zstd")
    stored_at: Mapped[datetime] = column("when a job with it was submitted last")

    __table_args__ = ({"sqlite_with_rowid": False},)
