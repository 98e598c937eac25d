"""One document of a job: all that is stored of it, and how it was processed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, func, select

from jobs.errors import NotFoundError
from jobs.store.report.documents.document_order import Cursor, Order, key_of
from jobs.store.report.documents.export import OK, WAITING
from jobs.store.report.job_summary import LARGEST_ID, JobSummary
from jobs.store.report.shards import Event, shard_events
from jobs.store.schema.results import RESULTS, is_of_document
from jobs.store.schema.states import DocumentStatus, ShardState
from jobs.store.schema.tables import Document, Shard, ShardEvent, Worker
from jobs.tasks.kinds import KINDS

MAX_EVENTS = 200  # of a shard


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A document with its result, or why it has none."""

    position: int
    external_id: str | None
    numeric_id: bool
    unnamed: bool  # the corpus has no id: `external_id` is the line number
    line: int
    text: str | None  # the payload; None: the line could not be read
    fields: str | None  # JSON: the line's other fields
    status: str  # ok | waiting | a DocumentStatus
    error_code: str | None
    error: str | None
    route: str | None  # the language by which its models were chosen
    result: Mapping[str, Any]  # the columns of its table of results; empty without a result


@dataclass(frozen=True, slots=True)
class Batch:
    """The batch that a document was computed and recorded with."""

    documents: int | None
    seconds: float  # from the lease, or from the batch before it, until it was recorded


@dataclass(frozen=True, slots=True)
class Processing:
    """How a document was processed, as far as it was."""

    shard_id: int
    start: int  # positions of the shard's documents
    stop: int
    state: str
    attempts: int
    crashes: int
    lane: int | None  # of the worker; known for the shard's latest lease
    epoch: int | None  # of the lease under which the result was recorded
    worker_id: int | None
    worker: str | None  # host and process
    device: str | None
    batch: Batch | None
    events: Sequence[Event]
    num_hidden: int  # events before these


def find_document(
    connection: Connection, job: JobSummary, *, external_id: str | None = None, position: int | None = None
) -> StoredDocument:
    """The document with this id in the corpus, or at this position. Raises NotFoundError."""
    where: ColumnElement[bool]
    if position is not None:
        where, said = Document.position == min(position, LARGEST_ID), f"at position {position}"
    else:
        where, said = Document.external_id == external_id, f"with the id {external_id!r}"
    result = RESULTS[job.task]
    own = [getattr(Document, name) for name in StoredDocument.__dataclass_fields__ if name != "result"]
    row = connection.execute(
        select(*own, *result.__table__.c)
        .join_from(Document, result, is_of_document(result), isouter=True)
        .where(Document.job_id == job.job_id, where)
    ).one_or_none()
    if row is None:
        raise NotFoundError(f"job {job.label} has no document {said}")
    values = list(row)
    found = dict(zip(result.__table__.c.keys(), values[len(own) :], strict=True))
    document = dict(zip((column.key for column in own), values[: len(own)], strict=True))
    has_result = found["position"] is not None
    document["status"] = OK if has_result else document["status"] or WAITING
    return StoredDocument(**document, result=found if has_result else {})


def cursor_of(document: StoredDocument, job: JobSummary, order: Order) -> Cursor | None:
    """Where a document is in an order; None where it is not in it, for lack of a result."""
    kind, result = KINDS[job.task], document.result
    if key_of(order, RESULTS[job.task]) is None:
        return Cursor(document.position)
    if not result:
        return None
    if order in (Order.LONGEST, Order.SHORTEST):
        return Cursor(document.position, result[kind.length or ""])
    assert kind.mean is not None, "else there is no such order"
    total, count = result[kind.mean.total], result[kind.mean.count]
    return Cursor(document.position, total / count) if count and total is not None else None


def processing_of(connection: Connection, job: JobSummary, document: StoredDocument) -> Processing | None:
    """How it was processed; None for a rejected line, which no worker gets."""
    if document.text is None or document.status == DocumentStatus.REJECTED:
        return None
    of_document = (
        (Shard.id == document.result["shard_id"],)
        if document.result
        else (Shard.start <= document.position, Shard.stop > document.position)
    )
    shard = connection.execute(
        select(
            *(Shard.id, Shard.start, Shard.stop, Shard.state, Shard.attempts, Shard.crashes),
            *(Shard.lease_owner, Shard.lane, Shard.lease_epoch),
        ).where(Shard.job_id == job.job_id, *of_document)
    ).first()
    if shard is None:
        return None
    events, num_hidden = _events(connection, job.job_id, shard.id)
    is_leased = not document.result and shard.state == ShardState.LEASED
    worker_id = shard.lease_owner if is_leased else document.result.get("worker_id")
    worker = connection.execute(select(Worker.host, Worker.pid, Worker.device).where(Worker.id == worker_id)).first()
    return Processing(
        shard_id=shard.id,
        start=shard.start,
        stop=shard.stop,
        state=shard.state,
        attempts=shard.attempts,
        crashes=shard.crashes,
        lane=shard.lane if is_leased else None,
        epoch=document.result.get("epoch"),
        worker_id=worker_id,
        worker=f"{worker.host}, process {worker.pid}" if worker else None,
        device=worker.device if worker else None,
        batch=_batch(events, document),
        events=events,
        num_hidden=num_hidden,
    )


def _events(connection: Connection, job_id: int, shard_id: int) -> tuple[list[Event], int]:
    """The newest events of a shard, oldest first; and how many there are besides."""
    found = shard_events(connection, job_id, shard_id, MAX_EVENTS)[::-1]
    if len(found) < MAX_EVENTS:
        return found, 0
    of_shard = (ShardEvent.job_id == job_id, ShardEvent.shard_id == shard_id)
    total = connection.execute(select(func.count()).select_from(ShardEvent).where(*of_shard)).scalar_one()
    return found, total - len(found)


def _batch(events: Sequence[Event], document: StoredDocument) -> Batch | None:
    """The first batch of the document's lease that was recorded when its result was, or later: a result is written just
    before the event of its batch."""
    if not document.result:
        return None
    of_lease = [event for event in events if event.epoch == document.result["epoch"]]
    began: Event | None = None
    for event in of_lease:
        if event.event == "recorded" and event.at >= document.result["finished_at"]:
            return Batch(event.documents, (event.at - began.at).total_seconds()) if began else None
        if event.event in ("leased", "recorded"):
            began = event
    return None
