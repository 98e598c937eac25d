"""The timings of a batch are one row, and no longer one for each model call.

Revision ID: 0035
Revises: 0034
"""

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from alembic import op

from jobs.store.schema.clock import UtcDateTime

Int = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

revision = "0035"
down_revision = "0034"
branch_labels = None
depends_on = None

SLICE = 10_000  # timings that are read before they are written
BATCH = ("job_id", "shard_id", "epoch", "worker_id", "lane", "recorded_at")
CALL = ("step", "rows", "tokens", "past_length", "calls", "seconds")
PER_SECOND = 1_000_000_000


def upgrade() -> None:
    """Rows that were recorded together become one; two, where a slice ends between them, which the view shows alike.
    An older worker that records meanwhile waits for the renamed table, and fails."""
    _replace_table(sa.Column("timings", sa.Text(), nullable=False))
    names = ("id", *BATCH, "phase", *CALL)
    for some in _slices(f"SELECT {', '.join(names)} FROM old_steps", SLICE):
        batches: dict[Any, dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
        for row in some:
            *numbers, seconds = row[8:]
            batches[row[1:7]][row[7]].append((*numbers, round(seconds * PER_SECOND)))
        rows = [(*batch, json.dumps(phases, separators=(",", ":"))) for batch, phases in batches.items()]
        _insert((*BATCH, "timings"), rows)
    op.drop_table("old_steps")


def downgrade() -> None:
    columns = [sa.Column(name, sa.Float() if name == "seconds" else Int, nullable=False) for name in CALL]
    _replace_table(sa.Column("phase", sa.Text(), nullable=False), *columns)
    for some in _slices(f"SELECT id, {', '.join(BATCH)}, timings FROM old_steps", SLICE // 250):
        rows = [
            (*row[1:7], phase, *numbers, nanoseconds / PER_SECOND)
            for row in some
            for phase, calls in json.loads(row[7]).items()
            for *numbers, nanoseconds in calls
        ]
        _insert((*BATCH, "phase", *CALL), rows)
    op.drop_table("old_steps")


def _replace_table(*columns: sa.Column[Any]) -> None:
    """Rename the table to `old_steps`, and make an empty one with other columns."""
    is_sqlite = op.get_bind().dialect.name == "sqlite"
    op.drop_index(op.f("ix_steps_job_id"), "steps")
    op.rename_table("steps", "old_steps")
    if not is_sqlite:  # where these names are those of relations, too
        op.execute("ALTER TABLE old_steps RENAME CONSTRAINT pk_steps TO pk_old_steps")
        op.execute("ALTER SEQUENCE steps_id_seq RENAME TO old_steps_id_seq")
    references = [
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_steps_job_id_jobs"), ondelete="CASCADE")
    ]
    op.create_table(
        "steps",
        sa.Column("id", Int, nullable=False),
        *(sa.Column(name, Int, nullable=False) for name in BATCH if name != "recorded_at"),
        *columns,
        sa.Column("recorded_at", UtcDateTime(), nullable=False),
        # On PostgreSQL without the reference to the job, for the reason that migration 0002 gives.
        *(references if is_sqlite else []),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_steps")),
    )
    op.create_index(op.f("ix_steps_job_id"), "steps", ["job_id"])


def _slices(query: str, length: int) -> Iterator[list[tuple[Any, ...]]]:
    """The rows of a query, whose first column is `id`, in its order: as many at a time as are kept in memory."""
    after = 0
    while True:
        found = op.get_bind().exec_driver_sql(f"{query} WHERE id > {after} ORDER BY id LIMIT {length}")
        rows = [tuple(row) for row in found]
        if not rows:
            return
        yield rows
        after = rows[-1][0]


def _insert(names: tuple[str, ...], rows: list[tuple[Any, ...]]) -> None:
    placeholder = "?" if op.get_bind().dialect.name == "sqlite" else "%s"
    values = ", ".join([placeholder] * len(names))
    op.get_bind().exec_driver_sql(f"INSERT INTO steps ({', '.join(names)}) VALUES ({values})", rows)
