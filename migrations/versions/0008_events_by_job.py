"""The newest events of a job are found by an index.

Revision ID: 0008
Revises: 0007
"""

from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index(op.f("ix_shard_events_job_id_id"), "shard_events", ["job_id", "id"])


def downgrade() -> None:
    op.drop_index(op.f("ix_shard_events_job_id_id"), table_name="shard_events")
