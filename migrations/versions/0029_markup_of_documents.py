"""What in the text of a document is no word.

Revision ID: 0029
Revises: 0028
"""

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("documents", sa.Column("markup", sa.Text(), nullable=True))


def downgrade() -> None:
    op.drop_column("documents", "markup")
