"""How long a job was paused, and what a person asked of a worker.

Revision ID: 0018
Revises: 0017
"""

import sqlalchemy as sa
from alembic import op

from jobs.store.schema.clock import UtcDateTime

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

COLUMNS = (
    ("jobs", "paused_at", UtcDateTime()),
    ("workers", "asked_to", sa.Text()),
    ("workers", "asked_by", sa.Text()),
    ("workers", "asked_at", UtcDateTime()),
)


def upgrade() -> None:
    op.add_column("jobs", sa.Column("idle_s", sa.Float(), nullable=False, server_default="0"))
    for table, name, kind in COLUMNS:
        op.add_column(table, sa.Column(name, kind, nullable=True))


def downgrade() -> None:
    for table, name, _ in COLUMNS:
        op.drop_column(table, name)
    op.drop_column("jobs", "idle_s")
