"""The bulk insert of an ingest: documents, the rejection of those whose id is taken, and shards.

Knows: the fastest way into each database. Does not know: when a batch may be written.
"""

from collections.abc import Sequence
from itertools import groupby

from sqlalchemy import Connection, func, insert, select, update

from jobs.documents import Document, Record, Rejected, duplicate
from jobs.store.ingest.postgresql_copy import copy_documents
from jobs.store.schema import tables
from jobs.store.schema.clock import db_time
from jobs.store.schema.states import ShardState
from jobs.store.schema.tables import Job, JobCounts, Shard

IDS_A_QUERY = 500


def insert_batch(connection: Connection, job_id: int, shards: Sequence[Sequence[Record]]) -> None:
    """Insert the documents of these shards, and the shards that have something to do; count both."""
    records = [record for shard in shards for record in shard]
    _insert_documents(connection, job_id, records)
    duplicates = _reject_duplicates(connection, job_id, records)
    new_shards, num_tokens = [], 0
    for shard in shards:
        todo = [r for r in shard if type(r) is Document and r.position not in duplicates]
        if todo:
            tokens = sum([document.estimated_tokens for document in todo])
            num_tokens += tokens
            start, stop = shard[0].position, shard[-1].position + 1
            new_shards.append({"start": start, "stop": stop, "estimated_tokens": tokens})
    if new_shards:
        same = insert(Shard).values(
            job_id=job_id,
            queue=select(Job.queue).where(Job.id == job_id).scalar_subquery(),
            state=ShardState.READY,
            available_at=db_time(),
            lease_epoch=0,
            attempts=0,
            crashes=0,
        )
        connection.execute(same, new_shards)
    num_rejected = len(duplicates) + sum(type(record) is Rejected for record in records)
    connection.execute(
        update(JobCounts)
        .where(JobCounts.job_id == job_id)
        .values(
            documents=JobCounts.documents + len(records),
            rejected=JobCounts.rejected + num_rejected,
            shards=JobCounts.shards + len(new_shards),
            shards_open=JobCounts.shards_open + len(new_shards),
            estimated_tokens=JobCounts.estimated_tokens + num_tokens,
        )
    )


def enlarge_cache(connection: Connection) -> None:
    """Room for a bulk insert on this connection. Each random id dirties another page of the index: with the usual
    2 MB of cache such pages are written several times within one transaction, and copied into the file after each. A
    million random ids: 16 µs a row and 3.9 GB written without this in batches of 10,000, 10 µs and 1.6 GB with it in
    batches of 20,000. Ids in order: no difference."""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("PRAGMA cache_size = -131072")  # KiB
        connection.exec_driver_sql("PRAGMA wal_autocheckpoint = 32768")  # pages of 4 KiB


def restore_cache(connection: Connection) -> None:
    """Undo `enlarge_cache`."""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("PRAGMA cache_size = -2000")
        connection.exec_driver_sql("PRAGMA wal_autocheckpoint = 1000")


def _insert_documents(connection: Connection, job_id: int, records: Sequence[Record]) -> None:
    """The one bulk insert. A record whose id is there already is left out without a word. In the order of the corpus,
    because of two records with one id the first is to stay."""
    if connection.dialect.name == "postgresql":
        copy_documents(connection, job_id, records)
        return
    # Past SQLAlchemy, whose own executemany takes 6.4 µs a row where this takes 3.7; a named tuple is a row as it is.
    unless_there = "ON CONFLICT (job_id, external_id) DO NOTHING"
    for kind, run in groupby(records, type):
        if kind is Document:
            connection.exec_driver_sql(
                f"INSERT INTO documents (job_id, {', '.join(Document._fields)})"
                f" VALUES ({job_id:d}, {', '.join('?' * len(Document._fields))}) {unless_there}",
                list(run),
            )
        else:
            connection.exec_driver_sql(
                "INSERT INTO documents (job_id, estimated_tokens, status, position, external_id, numeric_id, line,"
                f" error_code, error) VALUES ({job_id:d}, 0, 'rejected', ?, ?, ?, ?, ?, ?) {unless_there}",
                [(*record[:4], str(record[4]), record[5]) for record in run],
            )


def _mark(connection: Connection) -> str:
    """What stands for a value in a statement that goes past SQLAlchemy."""
    return "?" if connection.dialect.paramstyle == "qmark" else "%s"


def _reject_duplicates(connection: Connection, job_id: int, records: Sequence[Record]) -> set[int]:
    """The positions of the records that were left out, which are now there as rejected."""
    document = tables.Document
    here = (document.job_id == job_id) & document.position.between(records[0].position, records[-1].position)
    if connection.scalar(select(func.count()).where(here)) == len(records):
        return set()
    inserted = set(connection.scalars(select(document.position).where(here)))
    left_out = [record for record in records if record.position not in inserted]
    lines = _first_lines(connection, job_id, [record.external_id for record in left_out])
    _insert_documents(connection, job_id, [duplicate(record, lines[record.external_id]) for record in left_out])
    return {record.position for record in left_out}


def _first_lines(connection: Connection, job_id: int, ids: Sequence[str | None]) -> dict[str | None, int]:
    """The line that each of these ids is on. An index look-up an id: given `external_id IN (...)` with ten ids or
    more, SQLite goes through all documents of the job instead."""
    mark = _mark(connection)
    lines: dict[str | None, int] = {}
    for start in range(0, len(ids), IDS_A_QUERY):
        some = tuple(ids[start : start + IDS_A_QUERY])
        found = connection.exec_driver_sql(
            f"WITH wanted (id) AS (VALUES {', '.join([f'({mark})'] * len(some))})"
            " SELECT d.external_id, d.line FROM wanted CROSS JOIN documents d"
            f" WHERE d.job_id = {job_id:d} AND d.external_id = wanted.id",
            some,
        )
        lines.update((external_id, line) for external_id, line in found)
    return lines
