"""The seconds of a job are summed by minute, too.

Revision ID: 0010
Revises: 0009
"""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

SECONDS = ("busy_s", "model_s")


def upgrade() -> None:
    for name in SECONDS:
        op.add_column("minute_sums", sa.Column(name, sa.Float(), nullable=False, server_default="0"))
    op.execute(_from_batches())


def downgrade() -> None:
    # Minutes in which time was spent and no document ended; the older version has no rows for them.
    op.execute("DELETE FROM minute_sums WHERE documents = 0 AND failed = 0")
    for name in reversed(SECONDS):
        op.drop_column("minute_sums", name)


def _from_batches() -> str:
    """A minute may have no row yet: no document may have ended in it, and in a database of 0005 or older the results of
    a batch may have been written in the minute before that of its log entry."""
    is_sqlite = op.get_bind().dialect.name == "sqlite"
    minute = "substr(ended_at, 1, 16) || '\\:00.000'" if is_sqlite else "date_trunc('minute', ended_at)"
    # PostgreSQL has no reference from batches to their job, so a batch could be left of one that is gone.
    return f"""
        INSERT INTO minute_sums (job_id, minute, documents, failed, source_tokens, target_tokens, busy_s, model_s)
        SELECT job_id, {minute}, 0, 0, 0, 0, sum(busy_s), sum(model_s) FROM batches
        WHERE calls > 0 AND job_id IN (SELECT id FROM jobs)
        GROUP BY job_id, {minute}
        ON CONFLICT (job_id, minute) DO UPDATE SET busy_s = excluded.busy_s, model_s = excluded.model_s"""
