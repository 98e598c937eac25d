"""The results of `kvjobs models verify`."""

from datetime import datetime

from sqlalchemy import Index
from sqlalchemy.orm import Mapped

from jobs.store.schema.declarative import Base, BigId, column


class StoredVerification(Base):
    """A completed run of `kvjobs models verify`. Its verdict is that of one of its checks: the first that failed, else
    the comparison with the checkpoint, else the first check of the model with itself."""

    __tablename__ = "verifications"

    id: Mapped[int] = column("number of the row, in the order of writing", BigId, unit="id", primary_key=True)
    model: Mapped[str] = column("name of the model, or path of its folder")
    model_revision: Mapped[str] = column("sha256 over the model's files, as in `jobs`")
    files_stamp: Mapped[str] = column(
        "sha256 over inodes, sizes and times of these files: the machine that verified them sees without reading them "
        "that they are the same"
    )
    check_name: Mapped[str] = column("the check that decides; `checkpoint`: the model was compared with its checkpoint")
    against: Mapped[str] = column("what that check compared the model with")
    verdict: Mapped[str] = column("of that check: `same`, `tied`, `measured` (of an approximation) or `differs`")
    num_texts: Mapped[int] = column("texts that the checks took from the corpus", unit="texts")
    text_unit: Mapped[str] = column("what a text is: `segment` or `document`")
    corpus: Mapped[str | None] = column("where the texts came from; null: the bundled weather bulletins")
    same_tokens: Mapped[float | None] = column("share of equal tokens; translation models", unit="0 to 1")
    worst: Mapped[float | None] = column("largest difference of a token's log-probability; causal models", unit="nats")
    drift: Mapped[float | None] = column("mean difference of log-probabilities", unit="nats per token")
    checks: Mapped[str] = column("every check of the run, a JSON array (`kvjobs models verify --json`)")
    version: Mapped[str] = column("of kvjobs")
    verified_at: Mapped[datetime] = column("when the run ended")

    __table_args__ = (Index(None, "model", "model_revision", "id"),)
