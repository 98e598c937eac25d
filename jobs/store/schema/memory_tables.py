"""The memories: what was translated or scored before, by all that decides its result. They outlive their jobs."""

from sqlalchemy.orm import Mapped

from jobs.store.schema.column import column
from jobs.store.schema.declarative import Base


class MemoryEntry(Base):
    """The translation memory: segments that need not be translated again."""

    __tablename__ = "translation_memory"

    key: Mapped[bytes] = column("sha256 of the segment and of all that decides its result", primary_key=True)
    texts: Mapped[str] = column("translations, best first, a JSON list")
    scores: Mapped[str] = column("log-probability / length ** length_penalty of each, a JSON list")
    log_prob: Mapped[float] = column("of the best, summed over its tokens", unit="nats")
    num_source_tokens: Mapped[int] = column("of the segment", unit="tokens")
    num_target_tokens: Mapped[int] = column("of the best, end of sentence included", unit="tokens")
    flags: Mapped[str] = column("as in `translations`")

    __table_args__ = ({"sqlite_with_rowid": False},)


class ScoreEntry(Base):
    """The memory of scores: documents that need not be scored again."""

    __tablename__ = "score_memory"

    key: Mapped[bytes] = column("sha256 of the document and of all that decides its result", primary_key=True)
    nll_sum: Mapped[float] = column("as in `scores`", unit="nats")
    num_tokens: Mapped[int] = column("as in `scores`", unit="tokens")
    num_words: Mapped[int] = column("as in `scores`", unit="words")
    num_bytes: Mapped[int] = column("as in `scores`", unit="bytes")
    num_source_tokens: Mapped[int] = column("as in `scores`", unit="tokens")
    flags: Mapped[str] = column("as in `scores`")
    token_scores: Mapped[str | None] = column("as in `scores`")

    __table_args__ = ({"sqlite_with_rowid": False},)
