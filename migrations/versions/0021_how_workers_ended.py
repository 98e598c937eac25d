"""Which process of a worker was started, and whether it was killed.

Revision ID: 0021
Revises: 0020
"""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

Int = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.add_column("workers", sa.Column("parent_pid", Int, nullable=True))
    op.add_column("workers", sa.Column("killed", sa.Boolean(), nullable=False, server_default=sa.false()))


def downgrade() -> None:
    op.drop_column("workers", "killed")
    op.drop_column("workers", "parent_pid")
