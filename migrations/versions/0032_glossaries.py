"""Glossaries of jobs.

Revision ID: 0032
Revises: 0031
"""

import sqlalchemy as sa
from alembic import op

from jobs.store.schema.clock import UtcDateTime

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "glossaries",
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("terms", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.Column("stored_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_glossaries")),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    op.drop_table("glossaries")
