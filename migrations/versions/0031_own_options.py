"""Options that a document has in place of its job's: among them its markup, which had a column of its own; and what the
memory of translations keeps of a whole beam.

Revision ID: 0031
Revises: 0030
"""

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Renamed, not copied: a table of ten million documents stays as it is on disk.
    op.execute("ALTER TABLE documents RENAME COLUMN markup TO own_options")
    op.execute(
        "UPDATE documents SET own_options = '{\"markup\":\"' || own_options || '\"}' WHERE own_options IS NOT NULL"
    )
    op.add_column("translation_memory", sa.Column("sums", sa.Text(), nullable=True))


def downgrade() -> None:
    op.drop_column("translation_memory", "sums")
    for markup in ("html", "xml", "md"):
        op.execute(f"UPDATE documents SET own_options = '{markup}' WHERE own_options LIKE '%\"markup\":\"{markup}\"%'")
    op.execute("UPDATE documents SET own_options = NULL WHERE own_options NOT IN ('html', 'xml', 'md')")
    op.execute("ALTER TABLE documents RENAME COLUMN own_options TO markup")
