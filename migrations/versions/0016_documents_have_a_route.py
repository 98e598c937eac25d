"""Documents have a route: the language by which their models are chosen.

Revision ID: 0016
Revises: 0015
"""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("documents", sa.Column("route", sa.Text(), nullable=True))


def downgrade() -> None:
    op.drop_column("documents", "route")
