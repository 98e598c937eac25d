"""Translations have the words of their sentences and which belong together.

Revision ID: 0028
Revises: 0027
"""

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("translations", sa.Column("alignments", sa.Text(), nullable=True))


def downgrade() -> None:
    op.drop_column("translations", "alignments")
