"""The results of `kvjobs models verify` are kept.

Revision ID: 0011
Revises: 0010
"""

import sqlalchemy as sa
from alembic import op

from jobs.store.schema.clock import UtcDateTime

Int = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "verifications",
        sa.Column("id", Int, nullable=False),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("model", "model_revision", "files_stamp")),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("check_name", "against", "verdict")),
        sa.Column("num_texts", Int, nullable=False),
        sa.Column("text_unit", sa.Text(), nullable=False),
        sa.Column("corpus", sa.Text(), nullable=True),
        *(sa.Column(name, sa.Float(), nullable=True) for name in ("same_tokens", "worst", "drift")),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("checks", "version")),
        sa.Column("verified_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_verifications")),
    )
    op.create_index(
        op.f("ix_verifications_model_model_revision_id"), "verifications", ["model", "model_revision", "id"]
    )


def downgrade() -> None:
    op.drop_index(op.f("ix_verifications_model_model_revision_id"), table_name="verifications")
    op.drop_table("verifications")
