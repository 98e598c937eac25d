"""The text between two models: what a translation through a language in the middle keeps of it.

Revision ID: 0015
Revises: 0014
"""

import sqlalchemy as sa
from alembic import op

Int = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

COLUMNS = {
    "via": sa.Text(),
    "via_log_prob": sa.Float(),
    "via_target_tokens": Int,
    "via_source_tokens": Int,
    "via_segments": sa.Text(),
}


def upgrade() -> None:
    for name, kind in COLUMNS.items():
        op.add_column("translations", sa.Column(name, kind, nullable=True))


def downgrade() -> None:
    for name in reversed(COLUMNS):
        op.drop_column("translations", name)
