"""What `kvjobs models verify` found: a row for each run, and what it says about a model as it is now.

Knows: the table, revisions and stamps of files as texts. Does not know: models, files.
"""

import dataclasses
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, func, insert, inspect, select

from jobs.formatting import counted, figure, percent
from jobs.store.database import Database
from jobs.store.schema.clock import db_time
from jobs.store.schema.verification_table import StoredVerification

CHECKPOINT, DIFFERS, MEASURED = "checkpoint", "differs", "measured"  # of `worker.model_tools.verify`


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """A run of `models verify`; the columns are described in `StoredVerification`."""

    model: str
    model_revision: str
    files_stamp: str
    check_name: str
    against: str
    verdict: str
    num_texts: int
    text_unit: str
    corpus: str | None
    same_tokens: float | None
    worst: float | None
    drift: float | None
    checks: Sequence[Mapping[str, Any]]
    version: str
    verified_at: datetime | None = None  # None: not yet written

    @property
    def has_failed(self) -> bool:
        return self.verdict == DIFFERS

    @property
    def is_with_checkpoint(self) -> bool:
        return self.check_name == CHECKPOINT

    @property
    def compared(self) -> str:
        """What was compared with what, and how far it agreed."""
        texts = f"{counted(self.num_texts, self.text_unit)} of {self.corpus or 'the bundled weather bulletins'}"
        figures = []
        if self.same_tokens is not None:
            figures.append(f"{percent(self.same_tokens)} of tokens the same")
        what, unit = ("score", "") if self.text_unit == "pair" else ("token", " nats")
        if self.worst is not None:
            figures.append(f"largest difference of a {what} {figure(self.worst)}{unit}")
        elif self.drift is not None:
            figures.append(f"mean difference of a {what} {figure(self.drift)}{unit}")
        return "; ".join((f"{texts} against {self.against}", *figures))


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The newest verification of a model, and whether it was of the files that the model has now."""

    verification: Verification
    is_current: bool

    @property
    def words(self) -> str:
        """The verdict, for people."""
        found = self.verification
        if not self.is_current:
            return "not verified since it changed"
        if found.has_failed:
            return f"differs from {'its checkpoint' if found.is_with_checkpoint else found.against}"
        if not found.is_with_checkpoint:
            return "agrees with itself, no checkpoint compared"
        return "measured against its checkpoint" if found.verdict == MEASURED else "same as its checkpoint"

    @property
    def word(self) -> str:
        """The verdict, for a narrow column."""
        if not self.is_current:
            return "outdated"
        found = self.verification
        if found.has_failed:
            return DIFFERS
        if not found.is_with_checkpoint:
            return "with itself"
        return MEASURED if found.verdict == MEASURED else "same"

    def as_row(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        fields = dataclasses.asdict(self.verification)
        del fields["files_stamp"]
        return {"words": self.words, "is_current": self.is_current, "compared": self.verification.compared, **fields}


def log_verification(database: Database, verification: Verification) -> None:
    """Write a row. Numbers that are not finite become null."""
    row = dataclasses.asdict(verification) | {"verified_at": db_time()}
    checks = [{name: _finite(value) for name, value in check.items()} for check in verification.checks]
    row["checks"] = json.dumps(checks, ensure_ascii=False)
    with database.writing() as connection:
        values = {name: _storable(_finite(value)) for name, value in row.items()}
        connection.execute(insert(StoredVerification).values(values))


def newest_verifications(connection: Connection) -> list[Verification]:
    """The newest of each model and revision, newest first; none in a database of an older schema."""
    if not inspect(connection).has_table(StoredVerification.__tablename__):
        return []
    table = StoredVerification
    newest = select(func.max(table.id)).group_by(table.model, table.model_revision)
    columns = [getattr(table, name) for name in Verification.__dataclass_fields__]
    rows = connection.execute(select(*columns).where(table.id.in_(newest)).order_by(table.id.desc())).mappings()
    return [Verification(**{**row, "checks": json.loads(row["checks"])}) for row in rows]


def standing(
    stored: Iterable[Verification], names: Sequence[str], stamp: Callable[[], str], revision: Callable[[], str | None]
) -> Standing | None:
    """What `stored`, newest first, says about the model of these names; None if it was never verified.

    `revision` reads every file, so it is called only for a model that was verified, whose files have another stamp:
    they were changed or copied since, or another machine verified them.
    """
    known = [one for one in stored if one.model in names]
    if not known:
        return None
    now = stamp()
    current = next((one for one in known if one.files_stamp == now), None)
    wanted = current.model_revision if current else revision()
    same = next((one for one in known if one.model_revision == wanted), None)
    return Standing(verification=same or known[0], is_current=same is not None)


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _storable(value: Any) -> Any:
    """A path may have bytes that are not UTF-8."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
