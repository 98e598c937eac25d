"""The files of a job whose corpus is files that come back translated."""

from sqlalchemy import ForeignKey
from sqlalchemy.orm import Mapped

from jobs.store.schema.declarative import Base, column


class JobFile(Base):
    """A file of a corpus whose texts are translated and which comes back as it was: its units are documents that stand
    one behind the other. Of a chain they are the files of its first job."""

    __tablename__ = "job_files"

    job_id: Mapped[int] = column("its job", ForeignKey("jobs.id", ondelete="CASCADE"), unit="id", primary_key=True)
    number: Mapped[int] = column("place among the files, from 0", unit="position", primary_key=True)
    path: Mapped[str] = column("its path below the folder of the corpus")
    digest: Mapped[str] = column("sha256 of its bytes")
    num_bytes: Mapped[int] = column("its size", unit="bytes")
    first: Mapped[int] = column("position of the document that is its first unit", unit="position")
    documents: Mapped[int] = column(
        "its units; 1 of a file that cannot be read, 0 of one that is copied", unit="documents"
    )
    translated: Mapped[bool] = column("it is of a format whose texts are translated; else it is copied as it is")
    error: Mapped[str | None] = column("why it cannot be read; null: it was read")
    content: Mapped[bytes | None] = column(
        "its bytes, compressed with zstd; null of one that is copied or too large, which is read again where it was"
    )
