"""The chain of a job: when a shard closes, its documents are handed on to the next stage.

    stage 1   shard closes --+                      (a corpus is read by stage 1 alone)
                             | same transaction
    stage 2                  +--> documents, a shard: ready --lease--> ... closes --+
    stage 3                                                                         +--> documents, a shard ...

A later stage has no documents at first. When a shard of the stage before it closes, the transaction that closes it
inserts the documents of the same range into this stage, and a shard of them. So a range is handed on if and only if
the results that its documents are made from were stored, whatever process dies. A document without a result in the
stage before is `skipped` in this stage and in all later ones. A stage ends when its last shard is closed and the stage
before it has ended.

Every function with a connection runs inside the caller's transaction, which has locked the job's counters. The counters
of a chain are locked in the order of its stages.
"""

import functools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Executable,
    Integer,
    LargeBinary,
    Select,
    Text,
    and_,
    bindparam,
    case,
    cast,
    func,
    insert,
    literal,
    null,
    select,
    update,
)
from sqlalchemy.orm import aliased

from jobs.stage import FILTER
from jobs.store.connection.dialect import insert_or_ignore
from jobs.store.queue.filtering import keep_documents
from jobs.store.queue.job_counters import add_to_counters, lock_counters
from jobs.store.schema.clock import db_time
from jobs.store.schema.results import RESULTS, in_range, is_of_document
from jobs.store.schema.states import DocumentStatus, ShardState
from jobs.store.schema.tables import Document, Job, Shard

NO_RESULT = "no-result"  # error code: the stage before has none
NO_TEXT = "no-text"  # error code: the stage whose text is read made an empty one
CLOSED = (ShardState.DONE, ShardState.CANCELLED)


@dataclass(frozen=True, slots=True)
class Link:
    """A stage of a chain (`job_id`), the next stage, and the stage whose text the next one reads."""

    job_id: int
    task: str
    next_id: int
    next_task: str
    text_job: int  # the stage whose text the next one reads
    text_task: str | None  # the task of `text_job`; None: the next stage reads the corpus
    is_pairs: bool  # the next stage scores pairs: the text that `text_job` translated, and its translation


@dataclass(frozen=True, slots=True)
class NewShard:
    """The shard of the next stage that a range was handed on to."""

    job_id: int
    shard_id: int
    is_closed: bool  # no document of the shard waits


def chain_of(connection: Connection, job_id: int) -> list[int]:
    """The jobs of the chain that a job belongs to, in the order of stages; the job alone where it belongs to none."""
    chain = select(Job.chain).where(Job.id == job_id).scalar_subquery()
    found = connection.execute(select(Job.id).where(Job.chain == chain).order_by(Job.stage)).scalars().all()
    return list(found) or [job_id]


def is_stage(connection: Connection, job_id: int) -> bool:
    """Whether a job belongs to a chain."""
    return connection.execute(_chain_statement(), {"job_id": job_id}).scalar() is not None


@functools.cache
def _chain_statement() -> Select[Any]:
    """Made once, as `_link_statement`."""
    return select(Job.chain).where(Job.id == bindparam("job_id"))


def next_stage(connection: Connection, job_id: int) -> int | None:
    """The job that follows; None behind the last stage, and for a job without a chain."""
    return connection.execute(_next_statement(), {"job_id": job_id}).scalar()


@functools.cache
def _next_statement() -> Select[Any]:
    """Made once, as `_link_statement`."""
    this, following = aliased(Job), aliased(Job)
    follows = and_(following.chain == this.chain, following.stage == this.stage + 1)
    return select(following.id).join(this, follows).where(this.id == bindparam("job_id"))


def hand_on(connection: Connection, job_id: int, start: int, stop: int) -> NewShard | None:
    """Give the documents of a range, whose shard has closed, to the next stage. The shard there that changed, or None
    where nothing did: the job has no next stage, or all was handed on before.

    A second call for a range, after a retry, gives the next stage the documents that have a result since the first.
    """
    link = _link(connection, job_id)
    if link is None:
        return None
    rows = _rows(connection, link).where(in_range(Document, job_id, start, stop))
    # Before the lock, for which workers of the next stage would wait meanwhile. Nobody else inserts this range, since
    # this job's counters are locked, and whoever has the lock finds the documents when they have a shard.
    inserted = _insert(connection, rows)
    lock_counters(connection, link.next_id)
    if inserted:
        return _new_shard(connection, link, inserted, start, stop)
    return _reopened_shard(connection, link, rows, start, stop)


def skip_rejected(connection: Connection, job_ids: Sequence[int]) -> None:
    """Give the rejected lines of a chain's first job to the stages behind it: lines between two shards are in none."""
    for job_id, next_id in pairwise(job_ids):
        link = _link(connection, job_id)
        assert link, "a stage is followed by the next"
        lock_counters(connection, next_id)
        without = Document.status.in_([DocumentStatus.REJECTED, DocumentStatus.SKIPPED])
        number = len(_insert(connection, _rows(connection, link).where(Document.job_id == job_id, without)))
        add_to_counters(connection, next_id, documents=number, skipped=number)


@functools.cache
def _link_statement() -> Executable:
    """Made once: it is asked at the end of every shard, and takes longer to make than to run."""
    this, following, source = aliased(Job), aliased(Job), aliased(Job)
    return (
        select(
            this.task,
            following.id.label("next_id"),
            following.task.label("next_task"),
            following.options.label("next_options"),
            func.coalesce(source.id, this.chain).label("text_job"),
            source.task.label("text_task"),
        )
        .join(following, and_(following.chain == this.chain, following.stage == this.stage + 1))
        .join(source, and_(source.chain == this.chain, source.stage == following.reads), isouter=True)
        .where(this.id == bindparam("job_id"))
    )


def _link(connection: Connection, job_id: int) -> Link | None:
    row = connection.execute(_link_statement(), {"job_id": job_id}).one_or_none()
    if row is None:
        return None
    found = dict(row._mapping)
    is_pairs = bool(json.loads(found.pop("next_options")).get("pairs"))
    return Link(job_id=job_id, is_pairs=is_pairs, **found)


def _rows(connection: Connection, link: Link) -> Select[Any]:
    """A SELECT of the stage's documents as rows of `documents` of the next stage, in the order of `_COLUMNS`."""
    document, result = Document, RESULTS[link.task]
    source: Any = aliased(RESULTS[link.text_task]) if link.text_task else aliased(Document)
    translated: Any = aliased(Document)  # of a pair: the document whose translation `source` is
    has_result = result.position.is_not(None)
    is_ok = and_(has_result, func.coalesce(source.text, "") != "")
    tokens: Any = 0 if link.next_task == FILTER else _estimated_tokens(connection, source.text)
    text = source.text
    if link.is_pairs:
        tokens += _estimated_tokens(connection, translated.text)
        text = _pair(connection, translated.text, source.text)
    why = func.coalesce(document.error, document.status)
    reason = literal(f"job {link.job_id} has no result for this document: ").concat(why)
    was_skipped = document.status == DocumentStatus.SKIPPED  # the first reason is the one that counts
    code = case((has_result, NO_TEXT), (was_skipped, document.error_code), else_=NO_RESULT)
    message = case(
        (has_result, f"job {link.text_job} made an empty text of it"), (was_skipped, document.error), else_=reason
    )
    rows = (
        select(
            literal(link.next_id),
            *(document.position, document.external_id, document.numeric_id, document.unnamed, document.line),
            document.fields,
            case((is_ok, text)).label("text"),
            case((is_ok, tokens), else_=0).label("estimated_tokens"),
            case((is_ok, null()), else_=DocumentStatus.SKIPPED.value).label("status"),
            case((is_ok, null()), else_=code),
            case((is_ok, null()), else_=message),
        )
        .join_from(document, result, is_of_document(result), isouter=True)
        .join(source, and_(source.job_id == link.text_job, source.position == document.position), isouter=True)
    )
    if not link.is_pairs:
        return rows
    same = and_(translated.job_id == link.text_job, translated.position == document.position)
    return rows.join(translated, same, isouter=True)


def _insert(connection: Connection, rows: Select[Any]) -> list[int]:
    """Insert the selected documents that do not exist yet; returns the estimated tokens of each inserted one."""
    new = insert_or_ignore(connection, Document).from_select(_COLUMNS, rows).returning(Document.estimated_tokens)
    return list(connection.execute(new).scalars())


def _new_shard(connection: Connection, link: Link, inserted: Sequence[int], start: int, stop: int) -> NewShard:
    """The shard of documents that were just inserted. One in which none waits is done from the start."""
    is_filter = link.next_task == FILTER
    waiting = sum(tokens > 0 for tokens in inserted)
    is_closed = is_filter or not waiting
    shard_id: int = connection.execute(
        insert(Shard)
        .values(
            **new_shard(link.next_id, ShardState.DONE if is_closed else ShardState.READY),
            start=start,
            stop=stop,
            estimated_tokens=sum(inserted),
        )
        .returning(Shard.id)
    ).scalar_one()
    counted = {"documents": len(inserted), "shards": 1, "estimated_tokens": sum(inserted)}
    if is_filter:
        kept = keep_documents(connection, link.next_id, shard_id, start, stop)
        counted |= {"succeeded": kept, "skipped": len(inserted) - kept}
    else:
        counted |= {"skipped": len(inserted) - waiting, "shards_open": int(not is_closed)}
    add_to_counters(connection, link.next_id, **counted)
    return NewShard(link.next_id, shard_id, is_closed)


def new_shard(job_id: int, state: ShardState = ShardState.READY) -> dict[str, Any]:
    """The columns of a shard that was never leased, except `start`, `stop` and `estimated_tokens`."""
    queue = select(Job.queue).where(Job.id == job_id).scalar_subquery()
    never = dict.fromkeys(("lease_epoch", "attempts", "crashes"), 0)
    return {"job_id": job_id, "queue": queue, "state": state, "available_at": db_time(), **never}


def _reopened_shard(connection: Connection, link: Link, rows: Select[Any], start: int, stop: int) -> NewShard | None:
    """After a retry: open the documents that were skipped because the stage before had no result, and now has one."""
    skipped = and_(in_range(Document, link.next_id, start, stop), Document.status == DocumentStatus.SKIPPED)
    found = rows.subquery()
    now_ok = select(found.c.position, found.c.text, found.c.estimated_tokens).where(found.c.status.is_(None)).subquery()
    again = (now_ok.c.position == Document.position) & skipped
    tokens = list(
        connection.execute(
            update(Document)
            .where(again)
            .values(
                text=now_ok.c.text,
                estimated_tokens=now_ok.c.estimated_tokens,
                status=null(),
                error_code=null(),
                error=null(),
            )
            .returning(Document.estimated_tokens)
        ).scalars()
    )
    if not tokens:
        return None
    of_range = and_(Shard.job_id == link.next_id, Shard.start == start, Shard.stop == stop)
    shard_id = connection.execute(select(Shard.id).where(of_range)).scalar_one()
    if link.next_task == FILTER:
        kept = keep_documents(connection, link.next_id, shard_id, start, stop)
        add_to_counters(connection, link.next_id, succeeded=kept, skipped=-kept)
        return NewShard(link.next_id, shard_id, is_closed=True)
    reopened = connection.execute(
        update(Shard)
        .where(Shard.id == shard_id, Shard.state.in_(CLOSED))
        .values(state=ShardState.READY, crashes=0, available_at=db_time())
    ).rowcount
    connection.execute(
        update(Shard).where(Shard.id == shard_id).values(estimated_tokens=Shard.estimated_tokens + sum(tokens))
    )
    added = {"skipped": -len(tokens), "estimated_tokens": sum(tokens), "shards_open": reopened}
    add_to_counters(connection, link.next_id, **added)
    return NewShard(link.next_id, shard_id, is_closed=False)


def _estimated_tokens(connection: Connection, text: ColumnElement[Any]) -> ColumnElement[int]:
    """`jobs.documents.estimate_tokens` in SQL."""
    if connection.dialect.name == "sqlite":
        num_bytes = func.length(cast(text, LargeBinary), type_=Integer())
    else:
        num_bytes = func.octet_length(text, type_=Integer())
    return (num_bytes + 3) // 4


def _pair(connection: Connection, source: ColumnElement[Any], target: ColumnElement[Any]) -> ColumnElement[Any]:
    """The payload of a pair, as `jobs.corpus.payload.take_pair` makes it."""
    if connection.dialect.name == "sqlite":
        return func.json_object("source", source, "target", target)
    return cast(func.json_build_object("source", source, "target", target), Text())


_COLUMNS = (
    *("job_id", "position", "external_id", "numeric_id", "unnamed", "line", "fields", "text", "estimated_tokens"),
    *("status", "error_code", "error"),
)
