"""Jobs that stay open: documents are appended while workers process them.

Revision ID: 0022
Revises: 0021
"""

import sqlalchemy as sa
from alembic import op

from jobs.store.schema.clock import UtcDateTime

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("jobs", sa.Column("is_open", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.add_column("jobs", sa.Column("closed_at", UtcDateTime(), nullable=True))


def downgrade() -> None:
    op.drop_column("jobs", "closed_at")
    op.drop_column("jobs", "is_open")
