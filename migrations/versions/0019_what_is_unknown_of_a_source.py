"""Translations have the share of their source that the model does not know.

Revision ID: 0019
Revises: 0018
"""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("translations", sa.Column("unknown_share", sa.Float(), nullable=True))


def downgrade() -> None:
    op.drop_column("translations", "unknown_share")
