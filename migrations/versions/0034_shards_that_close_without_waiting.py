"""A recorder that ends a shard appends it to the deltas, too, and waits for no other.

Revision ID: 0034
Revises: 0033
"""

import sqlalchemy as sa
from alembic import op

Int = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

revision = "0034"
down_revision = "0033"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Deltas of an older version have not closed a shard: those were subtracted at once."""
    op.add_column("deltas", sa.Column("shards_open", Int, nullable=False, server_default="0"))


def downgrade() -> None:
    """Nothing may be left to fold: an older version does not know of it."""
    if op.get_bind().execute(sa.text("SELECT 1 FROM deltas WHERE shards_open <> 0 LIMIT 1")).first() is not None:
        raise ValueError("deltas are left, which would be lost: fold them before")
    with op.batch_alter_table("deltas") as table:
        table.drop_column("shards_open")
