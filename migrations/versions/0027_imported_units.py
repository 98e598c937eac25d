"""Translations that people import, and when and by which model an entry of the memory was stored.

Revision ID: 0027
Revises: 0026
"""

import sqlalchemy as sa
from alembic import op

from jobs.store.schema.clock import UtcDateTime

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("translation_memory", sa.Column("model", sa.Text(), nullable=True))
    op.add_column("translation_memory", sa.Column("learned_at", UtcDateTime(), nullable=True))
    names = ("source_language", "target_language", "source", "target", "file")
    op.create_table(
        "imported_units",
        sa.Column("source_digest", sa.LargeBinary(), nullable=False),
        *(sa.Column(name, sa.Text(), nullable=False) for name in names),
        sa.Column("imported_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("source_digest", "source_language", "target_language", name=op.f("pk_imported_units")),
        sqlite_with_rowid=False,
    )
    op.create_index(op.f("ix_imported_units_imported_at"), "imported_units", ["imported_at"])


def downgrade() -> None:
    op.drop_table("imported_units")
    op.drop_column("translation_memory", "learned_at")
    op.drop_column("translation_memory", "model")
