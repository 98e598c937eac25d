"""
What a batch adds to the counters and rollups of its job.

    record   ->  deltas              appended: a thousand recorders of a job do not wait for each other
    fold     ->  job_counts, rollups     about once a second, by one process of the fleet; any number may do it
    reports  <-  both                `jobs.store.schema.current_sums`

On SQLite, which has one writer at a time, a batch is added to the tables at once.
"""

import json
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import Connection, select

from jobs.store.connection.dialect import Addition, add_to_rows
from jobs.store.database import Database
from jobs.store.queue.job_counters import COUNTERS, lock_counters
from jobs.store.schema.current_sums import COUNTED, ROLLUPS, key_of, rows_of_deltas, summed
from jobs.store.schema.delta_table import Delta
from jobs.store.schema.tables import JobCounts
from jobs.system.failpoints import failpoint

FOLDED_AT_ONCE = 500  # deltas of a transaction, which has the lock of the job's counters for some 50 ms


def add_to_job(connection: Connection, job_id: int, amounts: Mapping[str, int], *additions: Addition) -> None:
    """Add amounts to the counters of a job (`COUNTED`), and rows to its rollups, each with its `job_id`. Rows of other
    tables are inserted at once, on PostgreSQL in the same statement."""
    if connection.dialect.name == "sqlite":
        add_to_rows(connection, (JobCounts, [{"job_id": job_id, **dict.fromkeys(COUNTERS, 0), **amounts}]), *additions)
        return
    assert set(amounts) <= set(COUNTED), amounts
    summed_up = ((table.__tablename__, rows) for table, rows in additions if rows and table in ROLLUPS)
    sums = {name: [_without_job(row) for row in rows] for name, rows in summed_up}
    row = {"job_id": job_id, **dict.fromkeys(COUNTED, 0), **amounts, "sums": json.dumps(sums, default=_as_text)}
    others = ((table, rows) for table, rows in additions if table not in ROLLUPS)
    add_to_rows(connection, *others, (Delta, [row]))


def fold(database: Database) -> int:
    """Fold the deltas of all jobs; returns their number. Any number of processes may do it at once."""
    if database.is_sqlite:
        return 0
    with database.reading() as connection:
        job_ids = connection.execute(select(Delta.job_id).distinct()).scalars().all()
    total = 0
    for job_id in sorted(job_ids):
        folded = FOLDED_AT_ONCE
        while folded == FOLDED_AT_ONCE:
            with database.writing() as connection:
                lock_counters(connection, job_id)
                failpoint("before-fold")
                folded = _fold(connection, job_id, FOLDED_AT_ONCE)
                failpoint("in-fold")
            failpoint("after-fold")
            total += folded
    return total


def fold_job(connection: Connection, job_id: int) -> None:
    """Fold all deltas of a job within the transaction, which has locked its counters."""
    if connection.dialect.name != "sqlite":
        _fold(connection, job_id, None)


def count_deltas(connection: Connection) -> int:
    """How many deltas wait to be folded."""
    return int(connection.exec_driver_sql("SELECT count(*) FROM deltas").scalar_one())


def _fold(connection: Connection, job_id: int, limit: int | None) -> int:
    return int(connection.exec_driver_sql(_fold_statement(), (job_id, limit)).scalar_one())


@cache
def _fold_statement() -> str:
    """One statement: deltas are deleted and added to the counters and to each rollup. The lock of the counters has been
    taken before, so no other statement folds those of this job."""
    added = ", ".join(f"{name} = job_counts.{name} + added.{name}" for name in COUNTED)
    sums = ", ".join(f"sum({name}) AS {name}" for name in COUNTED)
    parts = [
        "chosen AS (SELECT id FROM deltas WHERE job_id = %s ORDER BY id LIMIT %s)",
        f"gone AS (DELETE FROM deltas WHERE id IN (SELECT id FROM chosen) "
        f"RETURNING id, job_id, {', '.join(COUNTED)}, CAST(sums AS jsonb) AS sums)",
        f"counts AS (UPDATE job_counts SET {added} FROM (SELECT job_id, {sums} FROM gone GROUP BY job_id) AS added "
        f"WHERE job_counts.job_id = added.job_id)",
        *map(_addition, ROLLUPS),
    ]
    return f"WITH {', '.join(parts)} SELECT count(*) FROM gone"


def _addition(table: Any) -> str:
    name, key = table.__tablename__, key_of(table)
    columns = [column.name for column in table.__table__.columns if column.name != "job_id"]
    numbers = [
        column for column in columns if column not in key and table.__table__.c[column].type.python_type is not str
    ]
    added = ", ".join(f"{column} = {name}.{column} + excluded.{column}" for column in numbers)
    return (
        f"in_{name} AS (INSERT INTO {name} (job_id, {', '.join(columns)}) "
        f"SELECT gone.job_id, {summed(table, 'added', 'gone.id')} FROM {rows_of_deltas(table, 'gone')} "
        f"GROUP BY {', '.join(('gone.job_id', *(f'added.{column}' for column in key)))} "
        f"ON CONFLICT ({', '.join(('job_id', *key))}) DO UPDATE SET {added})"
    )


def _without_job(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "job_id"}


def _as_text(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(value)
