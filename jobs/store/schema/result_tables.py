"""The tables of results, one for each task, made of what the task declares."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar

from sqlalchemy import Float, ForeignKey, Index, Text, text
from sqlalchemy.orm import Mapped

from jobs.store.schema.declarative import Base, BigId, column
from jobs.tasks.filter import FILTER
from jobs.tasks.generate import GENERATE
from jobs.tasks.kind import Field, Kind, Type
from jobs.tasks.kinds import KINDS
from jobs.tasks.rerank import RERANK
from jobs.tasks.score import SCORE
from jobs.tasks.translate import TRANSLATE


class ResultRow(Base):
    """The columns that the results of all tasks share. The first result of a document is kept, never overwritten."""

    __abstract__ = True
    kind: ClassVar[Kind]  # the task

    job_id: Mapped[int] = column("its job", ForeignKey("jobs.id", ondelete="CASCADE"), unit="id", primary_key=True)
    position: Mapped[int] = column("place of the document in the corpus, from 0", unit="position", primary_key=True)
    flags: Mapped[str] = column("remarks on the result (`jobs.outcome.Flag`), sorted, separated by a space")
    shard_id: Mapped[int] = column("shard that it was computed in", unit="id")
    epoch: Mapped[int] = column("lease epoch under which it was recorded", unit="epoch")
    worker_id: Mapped[int] = column("worker that computed it", unit="id")
    finished_at: Mapped[datetime] = column("when it was recorded")
    provider: Mapped[str] = column(
        "who answered, as in `job_providers`; `none`: a ranking that no provider could make, which has the first "
        "order, or a document that a filter keeps",
        server_default="onnx",
    )


ResultTable = type[ResultRow]
TYPES = {Type.TEXT: Text, Type.JSON: Text, Type.INTEGER: BigId, Type.FLOAT: Float}


def _table_of(kind: Kind) -> Any:
    """The class of the table of a task's results: its own columns, then those that all share."""
    own = {field.name: _column(field) for field in kind.fields}
    index = () if kind.mean is None else (_index_of_means(kind),)
    about = {"__tablename__": kind.table, "__doc__": kind.about, "__module__": __name__, "kind": kind}
    return type(kind.table, (ResultRow,), {**about, **own, "__table_args__": (*index, {"sqlite_with_rowid": False})})


def _column(field: Field) -> Any:
    how = {} if field.default is None else {"server_default": field.default}
    return column(field.meaning, TYPES[field.type], unit=field.unit, nullable=field.is_nullable, **how)


def _index_of_means(kind: Kind) -> Index:
    """The index by mean per token, by which results are sorted."""
    assert kind.mean is not None
    has_tokens = text(f"{kind.mean.count} > 0")
    return Index(
        f"ix_{kind.table}_job_id_mean",
        "job_id",
        text(f"({kind.mean.total} / {kind.mean.count})"),
        "position",
        sqlite_where=has_tokens,
        postgresql_where=has_tokens,
    )


# The table of each task, by its name.
RESULTS: Mapping[str, Any] = {kind.name: _table_of(kind) for kind in KINDS.values()}
Translation, Score, Ranking, Generation, Pass = (
    RESULTS[kind.name] for kind in (TRANSLATE, SCORE, RERANK, GENERATE, FILTER)
)
