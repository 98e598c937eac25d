"""The tokens by which visitors of the dashboard and programs are known."""

from datetime import datetime

from sqlalchemy import Index, UniqueConstraint, text
from sqlalchemy.orm import Mapped

from jobs.store.schema.declarative import Base, BigId, column

IS_VALID = text("revoked_at IS NULL")  # of a token


class AccessToken(Base):
    """A token of `kvjobs tokens`. Its secret is stored nowhere."""

    __tablename__ = "tokens"

    id: Mapped[int] = column("number of the token, in the order of adding", BigId, unit="id", primary_key=True)
    name: Mapped[str] = column("its name, and the `owner` of jobs that are submitted with it; of a revoked token, too")
    role: Mapped[str] = column("`viewer`, `producer` or `operator`")
    secret_digest: Mapped[bytes] = column("sha256 of the secret")
    prefix: Mapped[str] = column("the first characters of the secret, by which its holder recognises it")
    created_at: Mapped[datetime] = column("when it was added")
    created_by: Mapped[str] = column("user and host of the command line that added it")
    last_used_at: Mapped[datetime | None] = column("a time of its use, at most a minute before the newest; null: never")
    revoked_at: Mapped[datetime | None] = column("since when it is refused; null while it is valid")
    max_jobs: Mapped[int | None] = column("jobs of this owner that may be open at a time; null: any", unit="jobs")
    max_bytes: Mapped[int | None] = column("size of an upload; null: as the dashboard allows", unit="bytes")

    __table_args__ = (
        UniqueConstraint("secret_digest"),
        # A name is free again once its token is revoked: so a secret is replaced, and the jobs keep their owner.
        Index(None, "name", unique=True, sqlite_where=IS_VALID, postgresql_where=IS_VALID),
    )
