"""What must hold after any fault; a sentence for each violation."""

import json
from collections import Counter
from dataclasses import dataclass

from sqlalchemy import func, select

from jobs.store.database import Database
from jobs.store.report.recount.consistency_check import find_contradictions
from jobs.store.schema.current_sums import current
from jobs.store.schema.tables import JobCounts, ShardEvent, Worker

LOST = ("lost", "expired", "stale_commit")  # events after which a batch is computed again
SHOWN = 3


@dataclass(frozen=True, slots=True)
class Redone:
    """The number of documents whose computed result was lost, and the figures that bound it."""

    documents: int
    lanes: int  # of the worker with the most lanes
    batch: int  # documents of the largest batch

    def bound(self, deaths: int) -> int:
        """The most documents computed again: a process that dies loses at most the current batch of each lane."""
        return deaths * self.lanes * self.batch


def find_violations(
    database: Database, job_id: int, exported: bytes, baseline: bytes, *, deaths: int | None = None
) -> list[str]:
    """The violations in a job that has ended. What must hold: the recount of `kvjobs db check` agrees; each document is
    in one accepted batch; the export equals that of an undisturbed run, byte for byte; and if `deaths` is given
    (processes that died, or were suspended for longer than a lease), no more documents were computed again than these
    held."""
    with database.reading() as connection:
        found = find_contradictions(connection, job_id)
    found += _recorded_twice(database, job_id)
    found += _different(exported, baseline)
    if deaths is not None:
        redone = redone_documents(database, job_id)
        if redone.documents > redone.bound(deaths):
            found.append(
                f"{redone.documents} documents were done again after {deaths} deaths, which held at most "
                f"{redone.bound(deaths)} ({redone.lanes} lanes, batches of up to {redone.batch})"
            )
    return found


def redone_documents(database: Database, job_id: int) -> Redone:
    """The documents computed again. A lease that ran out and whose worker then committed late is one loss, not two."""
    event = ShardEvent
    of_lease = (
        select(func.max(func.coalesce(event.documents, 0)).label("documents"))
        .where(event.job_id == job_id, event.event.in_(LOST))
        .group_by(event.shard_id, event.epoch)
        .subquery()
    )
    with database.reading() as connection:
        documents = connection.execute(select(func.coalesce(func.sum(of_lease.c.documents), 0))).scalar_one()
        lanes = connection.execute(select(func.coalesce(func.max(Worker.lanes), 0))).scalar_one()
        # Events of lost batches are included, because the largest batch may never have been recorded.
        sizes = select(func.coalesce(func.max(event.documents), 0)).where(event.job_id == job_id)
        batch = connection.execute(sizes).scalar_one()
    return Redone(int(documents), int(lanes), int(batch))


def _recorded_twice(database: Database, job_id: int) -> list[str]:
    """The violation, if any, of: the accepted batches hold as many documents as have ended. (Not true after
    `kvjobs retry`, which makes documents run twice.)"""
    with database.reading() as connection:
        recorded = connection.execute(
            select(func.coalesce(func.sum(ShardEvent.documents), 0)).where(
                ShardEvent.job_id == job_id, ShardEvent.event == "recorded"
            )
        ).scalar_one()
        now = current(JobCounts)
        counts = connection.execute(
            select(now.succeeded, now.failed, now.quarantined).where(now.job_id == job_id)
        ).one()
    ended = sum(counts)
    return [f"the accepted batches hold {recorded} documents, of which {ended} ended"] if recorded != ended else []


def _different(exported: bytes, baseline: bytes) -> list[str]:
    if exported == baseline:
        return []
    ours, theirs = exported.splitlines(), baseline.splitlines()
    ids = Counter(str(json.loads(line)["id"]) for line in ours)
    found = [f"exported more than once: {name}" for name, times in ids.items() if times > 1][:SHOWN]
    if len(ours) != len(theirs):
        return [*found, f"the export has {len(ours)} lines, the undisturbed one {len(theirs)}"]
    lines = [number for number, (one, other) in enumerate(zip(ours, theirs, strict=True), start=1) if one != other]
    first = lines[0] - 1
    return [
        *found,
        f"{len(lines)} lines of the export differ, first line {lines[0]}: {ours[first]!r}, not {theirs[first]!r}",
    ]
