"""a token for each lease; on SQLite, numbers that are never given again"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

# Where a number was used, beside the table's own rows: of these some may have been deleted.
SEEN = {
    "jobs": (("jobs", "id"), ("shard_events", "job_id")),
    "shards": (("shards", "id"), ("shard_events", "shard_id")),
    "workers": (("workers", "id"), ("shard_events", "worker_id"), ("shards", "lease_owner")),
}


def upgrade() -> None:
    op.add_column("shards", sa.Column("lease_token", sa.Text(), nullable=True))
    if op.get_bind().dialect.name == "sqlite":
        for table in SEEN:
            _never_again(table)


def downgrade() -> None:
    # SQLite's numbers stay as they are: the older version does not mind.
    op.drop_column("shards", "lease_token")


def _never_again(table: str) -> None:
    """Make the table anew, the same but for its numbers: only so can SQLite change this. (The caller sees to it that
    nothing is deleted with the old one.)"""
    with op.batch_alter_table(table, recreate="always", table_kwargs={"sqlite_autoincrement": True}):
        pass
    highest = " UNION ALL ".join(f"SELECT max({column}) AS number FROM {name}" for name, column in SEEN[table])
    op.execute(f"DELETE FROM sqlite_sequence WHERE name = '{table}'")
    op.execute(
        "INSERT INTO sqlite_sequence (name, seq) "
        f"SELECT '{table}', number FROM (SELECT max(number) AS number FROM ({highest})) WHERE number IS NOT NULL"
    )
