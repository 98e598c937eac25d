"""The recount of a stage of a chain: what it handed on to the next one is what it has."""

from collections.abc import Iterator

from sqlalchemy import Connection, and_, case, func, or_, select
from sqlalchemy.orm import aliased

from jobs.store.queue.chains import CLOSED, NO_RESULT, next_stage
from jobs.store.schema.results import ResultTable, is_of_document
from jobs.store.schema.states import DocumentStatus
from jobs.store.schema.tables import Document, Shard


def find_wrong_stage(connection: Connection, result: ResultTable, job_id: int) -> Iterator[str]:
    """The contradictions between a job and the next stage of its chain, a sentence each. `result`: the table of the
    job's results."""
    next_id = next_stage(connection, job_id)
    if next_id is None:
        return
    shard, handed_on = Shard, aliased(Shard)
    same = and_(handed_on.job_id == next_id, handed_on.start == shard.start, handed_on.stop == shard.stop)
    kept = connection.execute(
        select(func.count())
        .select_from(shard)
        .join(handed_on, same, isouter=True)
        .where(shard.job_id == job_id, shard.state.in_(CLOSED), handed_on.id.is_(None))
    ).scalar_one()
    if kept:
        yield f"closed shards that were not handed on to job {next_id}, the next stage: {kept}"
    later, document = aliased(Document), Document
    without, skipped = result.position.is_(None), later.status == DocumentStatus.SKIPPED
    wrong = {
        "that this job does not have": document.position.is_(None),
        "that have no result here and are not skipped there": and_(without, or_(later.status.is_(None), ~skipped)),
        "that have a result here and are skipped there": and_(~without, skipped, later.error_code == NO_RESULT),
    }
    found = connection.execute(
        select(*(func.coalesce(func.sum(case((condition, 1), else_=0)), 0) for condition in wrong.values()))
        .select_from(later)
        .join(document, and_(document.job_id == job_id, document.position == later.position), isouter=True)
        .join(result, is_of_document(result), isouter=True)
        .where(later.job_id == next_id)
    ).one()
    for what, number in zip(wrong, found, strict=True):
        if number:
            yield f"documents of job {next_id}, the next stage, {what}: {number}"
