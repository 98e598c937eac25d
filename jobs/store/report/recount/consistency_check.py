"""The recount: every document of a job counted again and compared with its counters, shards and log. Reads them all."""

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from sqlalchemy import Connection, and_, case, func, or_, select
from sqlalchemy.orm import aliased

from jobs.providers import NO_PROVIDER
from jobs.store.queue.chains import CLOSED, NO_RESULT, next_stage
from jobs.store.queue.job_counters import COUNTERS
from jobs.store.report.recount.rollup_recount import find_wrong_rollups
from jobs.store.schema.current_sums import current
from jobs.store.schema.provider_tables import HandoverCounts, JobProvider
from jobs.store.schema.results import RESULTS, SUMMED, ResultTable, is_of_document, open_positions
from jobs.store.schema.states import ENDED_STATES, DocumentStatus, JobState, ShardState
from jobs.store.schema.tables import Document, Job, JobCounts, Shard, ShardEvent

OPEN_SHARDS = (ShardState.READY, ShardState.LEASED)
LEASED, RECORDED, TAKEN_BACK = "leased", "recorded", ("lost", "expired")  # kinds of shard events
EVENTS_PER_FETCH = 10_000


def find_contradictions(connection: Connection, job_id: int) -> list[str]:
    """The contradictions in a job's rows, one sentence each; empty when there is none. The connection's transaction
    sees one moment, so the job may be running."""
    job = select(Job.state, Job.task, Job.is_open).where(Job.id == job_id)
    state, task, is_open = connection.execute(job).one()
    result = RESULTS[task]
    return [
        *([f"the job is open, though it is {state}"] if is_open and state != JobState.RUNNING else []),
        *_documents(connection, result, job_id, state),
        *_results(connection, result, job_id),
        *_elsewhere(connection, result, job_id),
        *_providers(connection, result, job_id),
        *_leases(connection, result, job_id),
        *_shards(connection, result, job_id, state),
        *find_wrong_rollups(connection, result, job_id),
        *find_wrong_stage(connection, result, job_id),
    ]


def _documents(connection: Connection, result: ResultTable, job_id: int, state: str) -> Iterator[str]:
    """Each document has at most one terminal state, and the counters agree with the documents."""
    document = Document
    has_result, has_status = result.position.is_not(None), document.status.is_not(None)

    def number(condition: Any) -> Any:
        return func.coalesce(func.sum(case((condition, 1), else_=0)), 0)

    def tokens(condition: Any) -> Any:
        return func.coalesce(func.sum(case((condition, document.estimated_tokens), else_=0)), 0)

    rejected = document.status == DocumentStatus.REJECTED
    not_rejected = ~func.coalesce(rejected, False)
    sums = {
        "documents": func.count(),
        "succeeded": number(has_result),
        **{status.value: number(document.status == status) for status in DocumentStatus},
        "estimated_tokens": tokens(not_rejected),
        "estimated_done": tokens(not_rejected & (has_result | has_status)),
        "twice": number(has_result & has_status),
        "waiting": number(~has_result & ~has_status),
        **{counter: func.coalesce(func.sum(column), 0) for counter, column in SUMMED[result].items()},
    }
    found = connection.execute(
        select(*(column.label(name) for name, column in sums.items()))
        .join_from(document, result, is_of_document(result), isouter=True)
        .where(document.job_id == job_id)
    ).one()
    counts = current(JobCounts)
    counters = connection.execute(
        select(*(getattr(counts, name) for name in COUNTERS)).where(counts.job_id == job_id)
    ).one()
    for name in sums:
        counter = getattr(counters, name, None)
        if counter is not None and counter != getattr(found, name):
            yield f"the counter {name} says {counter}, the recount {getattr(found, name)}"
    if found.twice:
        yield f"documents with both a result and a failure: {found.twice}"
    if found.waiting and state in (JobState.DONE, JobState.CANCELLED):
        yield f"documents still waiting, though the job is {state}: {found.waiting}"


def _results(connection: Connection, result: ResultTable, job_id: int) -> Iterator[str]:
    """Each result belongs to a document, and was recorded under a lease that its shard had."""
    document, shard = Document, Shard
    orphans = connection.execute(
        select(func.count())
        .select_from(result)
        .join(document, is_of_document(result), isouter=True)
        .where(result.job_id == job_id, document.position.is_(None))
    ).scalar_one()
    if orphans:
        yield f"results of no document: {orphans}"
    outside, ahead = connection.execute(
        select(
            func.coalesce(func.sum(case((shard.id.is_(None), 1), else_=0)), 0),
            func.coalesce(func.sum(case((result.epoch > shard.lease_epoch, 1), else_=0)), 0),
        )
        .select_from(result)
        .join(
            shard,
            and_(
                shard.id == result.shard_id,
                shard.job_id == result.job_id,
                shard.start <= result.position,
                shard.stop > result.position,
            ),
            isouter=True,
        )
        .where(result.job_id == job_id)
    ).one()
    if outside:
        yield f"results outside the shard that recorded it: {outside}"
    if ahead:
        yield f"results with an epoch above that of its shard: {ahead}"


def _elsewhere(connection: Connection, result: ResultTable, job_id: int) -> Iterator[str]:
    """No result is in the table of another task."""
    for other in RESULTS.values():
        found = select(func.count()).select_from(other).where(other.job_id == job_id)
        if other is not result and (number := connection.execute(found).scalar_one()):
            yield f"results in the table {other.__tablename__}, which is not that of the job's task: {number}"


def _providers(connection: Connection, result: ResultTable, job_id: int) -> Iterator[str]:
    """Each result names a provider of the job or none, and each provider's counter equals its number of results."""
    provided, handed = current(JobProvider), current(HandoverCounts)
    by_provider = select(result.provider, func.count()).where(result.job_id == job_id).group_by(result.provider)
    found = {provider: number for provider, number in connection.execute(by_provider) if provider != NO_PROVIDER}
    listed = select(provided.provider, provided.documents).where(provided.job_id == job_id)
    counted = {row.provider: row.documents for row in connection.execute(listed.order_by(provided.place))}
    for provider, number in counted.items():
        if number != found.get(provider, 0):
            yield f"the provider {provider} has {number} documents, the recount {found.get(provider, 0)}"
    handed_over: dict[str, int] = dict(
        connection.execute(
            select(handed.provider, func.sum(handed.documents)).where(handed.job_id == job_id).group_by(handed.provider)
        ).all()
    )
    listed = select(provided.provider, provided.handed_over).where(provided.job_id == job_id)
    for provider, number in connection.execute(listed.order_by(provided.place)):
        if number != handed_over.get(provider, 0):
            yield f"the provider {provider} handed over {number} documents, by reason {handed_over.get(provider, 0)}"
    for provider in sorted(found.keys() - counted):
        yield f"results of {provider}, which is not a provider of the job: {found[provider]}"


def _leases(connection: Connection, result: ResultTable, job_id: int) -> Iterator[str]:
    """The log of each shard, in the order of its events: batches are accepted under the newest lease only, a lease is
    taken back at most once, and no lease has more results than its batches had documents."""
    event = ShardEvent
    relevant = (LEASED, RECORDED, *TAKEN_BACK)
    rows = connection.execution_options(yield_per=EVENTS_PER_FETCH).execute(
        select(event.shard_id, event.event, event.epoch, event.documents)
        .where(event.job_id == job_id, event.event.in_(relevant))
        .order_by(event.shard_id, event.id)
    )
    stale = twice = 0
    shard_id, newest, is_over = 0, 0, True  # no shard has the number 0
    recorded: Counter[tuple[int, int]] = Counter()
    for row in rows:
        if row.shard_id != shard_id:
            shard_id, newest, is_over = row.shard_id, 0, True
        if row.event == LEASED:
            stale += row.epoch <= newest
            newest, is_over = row.epoch, False
        elif row.event == RECORDED:
            stale += row.epoch != newest or is_over
            recorded[shard_id, row.epoch] += row.documents
        else:
            twice += is_over or row.epoch != newest
            is_over = True
    if stale:
        yield f"leases or batches that were accepted behind a newer lease of their shard: {stale}"
    if twice:
        yield f"leases that were taken back although they were over: {twice}"
    results = connection.execute(
        select(result.shard_id, result.epoch, func.count().label("number"))
        .where(result.job_id == job_id)
        .group_by(result.shard_id, result.epoch)
    )
    unaccounted = sum(max(0, row.number - recorded[row.shard_id, row.epoch]) for row in results)
    if unaccounted and recorded:  # a job from another database may have no log
        yield f"results that no accepted batch accounts for: {unaccounted}"


def _shards(connection: Connection, result: ResultTable, job_id: int, state: str) -> Iterator[str]:
    """Ranges do not overlap, waiting documents are in open shards, and the counters say how many shards are open."""
    shards = connection.execute(
        select(Shard.id, Shard.start, Shard.stop, Shard.state).where(Shard.job_id == job_id).order_by(Shard.start)
    ).all()
    for shard, following in pairwise(shards):
        if following.start < shard.stop:
            yield f"shard {following.id} begins at {following.start}, and shard {shard.id} only ends at {shard.stop}"
    num_open = sum(shard.state in OPEN_SHARDS for shard in shards)
    counts = current(JobCounts)
    counters = connection.execute(select(counts.shards, counts.shards_open).where(counts.job_id == job_id)).one()
    if (counters.shards, counters.shards_open) != (len(shards), num_open):
        yield (
            f"the counters say {counters.shards} shards, {counters.shards_open} of them open; "
            f"there are {len(shards)} and {num_open}"
        )
    if num_open and state in ENDED_STATES:
        yield f"shards still open, though the job is {state}: {num_open}"
    for shard in shards:
        if shard.state not in OPEN_SHARDS and (
            waiting := _waiting(connection, result, job_id, shard.start, shard.stop)
        ):
            yield f"documents of shard {shard.id} still waiting, though it is {shard.state}: {waiting}"


def _waiting(connection: Connection, result: ResultTable, job_id: int, start: int, stop: int) -> int:
    waiting = open_positions(result, job_id, start, stop).subquery()
    return int(connection.execute(select(func.count()).select_from(waiting)).scalar_one())


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
