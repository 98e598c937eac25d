"""The bulk insert of a batch: its shards and documents; documents whose id is taken are rejected.

Knows: the fastest way into each database. Does not know: when a batch may be written.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from itertools import groupby
from typing import Any

from sqlalchemy import Connection, bindparam, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from jobs.documents import Document, LineName, Record, Reject, Rejected, duplicate
from jobs.store.connection.dialect import copy_rows
from jobs.store.ingest.rows_of_ids import rows_of_ids
from jobs.store.queue.chains import new_shard
from jobs.store.queue.job_counters import add_to_counters
from jobs.store.rollups import add_failures
from jobs.store.schema import tables
from jobs.store.schema.states import DocumentStatus
from jobs.store.schema.tables import Shard


def insert_batch(
    connection: Connection, job_id: int, shards: Sequence[Sequence[Record]], line_name: LineName | None = None
) -> None:
    """Insert the documents of these shards, and those shards that have a document to process; add to the counters.
    `line_name` names a line of the corpus for people."""
    records = [record for shard in shards for record in shard]
    _insert_documents(connection, job_id, records)
    duplicates = _reject_duplicates(connection, job_id, records, line_name)
    _insert_shards(connection, job_id, shards, duplicates)
    codes = Counter(record.code for record in records if type(record) is Rejected and record.position not in duplicates)
    codes[Reject.DUPLICATE_ID] += len(duplicates)
    add_to_counters(connection, job_id, rejected=codes.total())
    add_failures(
        connection, job_id, {(DocumentStatus.REJECTED, str(code)): codes[code] for code in codes if codes[code]}
    )


def insert_new(
    connection: Connection, job_id: int, shards: Sequence[Sequence[Document]], *, grows: int | None = None
) -> None:
    """Insert documents whose ids the job does not have, while nobody else inserts; and their shards, of which the first
    is the end of the shard `grows`, if that is given; add to the counters."""
    documents = [document for shard in shards for document in shard]
    if connection.dialect.name == "postgresql":
        _copy(connection, "documents", job_id, documents)
    else:
        _insert_documents(connection, job_id, documents)
    _insert_shards(connection, job_id, shards, grows=grows)


def _insert_shards(
    connection: Connection,
    job_id: int,
    shards: Sequence[Sequence[Record]],
    duplicates: Collection[int] = (),
    *,
    grows: int | None = None,
) -> None:
    """Insert the shards that have a document to process, and count them and all documents."""
    new_shards, num_tokens = [], 0
    for shard in shards:
        todo = [r for r in shard if type(r) is Document and r.position not in duplicates]
        if not todo:
            continue
        tokens = sum([document.estimated_tokens for document in todo])
        num_tokens += tokens
        start, stop = shard[0].position, shard[-1].position + 1
        if grows is not None and shard is shards[0]:
            connection.execute(GROWN, {"shard": grows, "new_stop": stop, "more_tokens": tokens})
        else:
            new_shards.append({"start": start, "stop": stop, "estimated_tokens": tokens})
    if new_shards:
        connection.execute(insert(Shard).values(new_shard(job_id)), new_shards)
    add_to_counters(
        connection,
        job_id,
        documents=sum(map(len, shards)),
        shards=len(new_shards),
        shards_open=len(new_shards),
        estimated_tokens=num_tokens,
    )


# Made once, because making it takes longer than executing it.
GROWN = (
    update(Shard)
    .where(Shard.id == bindparam("shard"))
    .values(stop=bindparam("new_stop"), estimated_tokens=Shard.estimated_tokens + bindparam("more_tokens"))
)


def enlarge_cache(connection: Connection) -> None:
    """Give SQLite a larger cache on this connection. Each random id changes another page of the index: with the default
    of 2 MB such pages are written several times within one transaction, and copied into the file after each. A million
    random ids: 16 µs per row and 3.9 GB written without this, in batches of 10,000; 10 µs and 1.6 GB with it, in
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
    """Insert records in the order of the corpus; of two records with the same id only the first is inserted."""
    if connection.dialect.name == "postgresql":
        copy_documents(connection, job_id, records)
        return
    # Through the driver: 3.7 µs per row, SQLAlchemy's executemany 6.4. A named tuple is a row as it is.
    unless_taken = "ON CONFLICT (job_id, external_id) DO NOTHING"
    for kind, run in groupby(records, type):
        if kind is Document:
            connection.exec_driver_sql(
                f"INSERT INTO documents (job_id, {', '.join(Document._fields)})"
                f" VALUES ({job_id:d}, {', '.join('?' * len(Document._fields))}) {unless_taken}",
                list(run),
            )
        else:
            connection.exec_driver_sql(
                "INSERT INTO documents (job_id, estimated_tokens, status, position, external_id, numeric_id, line,"
                " error_code, error, text, fields)"
                f" VALUES ({job_id:d}, 0, 'rejected', ?, ?, ?, ?, ?, ?, ?, ?) {unless_taken}",
                [(*record[:4], str(record[4]), record[5], record[7], record[8]) for record in run],
            )


def _reject_duplicates(
    connection: Connection, job_id: int, records: Sequence[Record], line_name: LineName | None
) -> set[int]:
    """Insert the records whose id was taken, as rejected documents. Returns their positions."""
    document = tables.Document
    here = (document.job_id == job_id) & document.position.between(records[0].position, records[-1].position)
    if connection.scalar(select(func.count()).where(here)) == len(records):
        return set()
    inserted = set(connection.scalars(select(document.position).where(here)))
    left_out = [record for record in records if record.position not in inserted]
    ids = [record.external_id for record in left_out]
    lines = {row.external_id: row.line for row in rows_of_ids(connection, job_id, ids, "d.line")}
    rejected = [duplicate(record, lines[record.external_id], line_name) for record in left_out]
    _insert_documents(connection, job_id, rejected)
    return {record.position for record in left_out}


COLUMNS = (
    *("job_id", "position", "external_id", "numeric_id", "line", "text", "fields", "estimated_tokens", "unnamed"),
    *("route", "own_options", "status", "error_code", "error"),
)


def copy_documents(connection: Connection, job_id: int, records: Sequence[Record]) -> None:
    """Insert every record into PostgreSQL by COPY, except those whose id the job has already; of two with one id the
    first stays.

    200,000 documents of 90 bytes, 20,000 per transaction: 107,000/s straight into the table; 43,000/s through a
    temporary table, which is needed only where an id occurs twice.
    """
    try:
        with connection.begin_nested():
            _copy(connection, "documents", job_id, records)
    except IntegrityError:
        _copy_without_duplicates(connection, job_id, records)


def _copy_without_duplicates(connection: Connection, job_id: int, records: Sequence[Record]) -> None:
    """Insert the records through a temporary table, because COPY has no ON CONFLICT."""
    connection.exec_driver_sql("CREATE TEMPORARY TABLE IF NOT EXISTS incoming (LIKE documents) ON COMMIT DELETE ROWS")
    connection.exec_driver_sql("TRUNCATE incoming")
    _copy(connection, "incoming", job_id, records)
    connection.exec_driver_sql(
        f"INSERT INTO documents ({', '.join(COLUMNS)}) SELECT {', '.join(COLUMNS)} FROM incoming ORDER BY position"
        " ON CONFLICT (job_id, external_id) DO NOTHING"
    )


def _copy(connection: Connection, table: str, job_id: int, records: Sequence[Record]) -> None:
    copy_rows(connection, table, COLUMNS, (_row(job_id, record) for record in records))


def _row(job_id: int, record: Record) -> tuple[Any, ...]:
    if type(record) is Document:
        return (job_id, *record, None, None, None)
    position, external_id, numeric_id, line, code, reason, _, text, fields = record
    own = (job_id, position, external_id, numeric_id, line, text, fields)
    return (*own, 0, False, None, None, "rejected", str(code), reason)
