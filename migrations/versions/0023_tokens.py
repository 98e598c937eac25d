"""Tokens with roles, and the owner of a job.

Revision ID: 0023
Revises: 0022
"""

import sqlalchemy as sa
from alembic import op

from jobs.store.schema.clock import UtcDateTime

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None

Int = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
IS_VALID = sa.text("revoked_at IS NULL")


def upgrade() -> None:
    op.add_column("jobs", sa.Column("owner", sa.Text(), nullable=True))
    op.create_table(
        "tokens",
        sa.Column("id", Int, nullable=False),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("name", "role")),
        sa.Column("secret_digest", sa.LargeBinary(), nullable=False),
        sa.Column("prefix", sa.Text(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        *(sa.Column(name, UtcDateTime(), nullable=True) for name in ("last_used_at", "revoked_at")),
        *(sa.Column(name, Int, nullable=True) for name in ("max_jobs", "max_bytes")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tokens")),
        sa.UniqueConstraint("secret_digest", name=op.f("uq_tokens_secret_digest")),
    )
    op.create_index(
        op.f("ix_tokens_name"), "tokens", ["name"], unique=True, sqlite_where=IS_VALID, postgresql_where=IS_VALID
    )


def downgrade() -> None:
    op.drop_index(op.f("ix_tokens_name"), table_name="tokens")
    op.drop_table("tokens")
    op.drop_column("jobs", "owner")
