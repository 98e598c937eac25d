"""The upgrade to 0035 makes one row of the timings of a batch, and the downgrade as many as there were."""

from typing import Any

from sqlalchemy import text

from jobs.store.database import Database
from jobs.store.schema.migrate import differences, downgrade, upgrade
from tests.databases import ON_BOTH
from tests.rows import insert_waiting_job

BEFORE = "0034"
SLICE, OF_A_BATCH = 10_000, 210  # the migration reads so many rows at a time: a batch is on both sides of an end
COLUMNS = "job_id, shard_id, epoch, worker_id, lane, phase, step, rows, tokens, past_length, calls, seconds"
# Rows as an older version wrote them: of two lanes in turn, as two recorders at once leave them.
OLDER = f"""
    WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {SLICE + OF_A_BATCH})
    INSERT INTO steps ({COLUMNS}, recorded_at)
    SELECT 1, 1 + i % 2, 1, 1, i % 2, CASE WHEN i % 3 = 0 THEN 'encode' ELSE 'decode.via' END, i % {OF_A_BATCH}, 2,
           i, 7, 1 + i % 5, i * 0.000123457, '2026-11-27 10:00:00.125'
    FROM n
"""


def rows(database: Database, sql: str) -> list[tuple[Any, ...]]:
    with database.reading() as connection:
        return [tuple(row) for row in connection.execute(text(sql))]


@ON_BOTH
def test_every_timing_of_an_older_version_is_kept(database: Database) -> None:
    insert_waiting_job(database, documents=1, per_shard=1)
    downgrade(database.engine, BEFORE)
    with database.writing() as connection:
        connection.execute(text(OLDER))
    in_table = rows(database, f"SELECT {COLUMNS}, recorded_at FROM steps ORDER BY tokens")

    upgrade(database.engine)

    in_view = rows(database, f"SELECT {COLUMNS}, recorded_at FROM v_steps ORDER BY tokens")
    assert [row[:11] + row[12:] for row in in_view] == [row[:11] + row[12:] for row in in_table]
    assert max(abs(new[11] - old[11]) for new, old in zip(in_view, in_table, strict=True)) < 1e-9
    assert len(rows(database, "SELECT id FROM steps")) == 4  # of two lanes, in two slices
    assert differences(database.engine) == []
    downgrade(database.engine, BEFORE)
    again_in_table = rows(database, f"SELECT {COLUMNS}, recorded_at FROM steps ORDER BY tokens")
    upgrade(database.engine)  # of a server other tests use the database, too
    assert again_in_table == in_view
