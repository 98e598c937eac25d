"""What recorded batches add to the sums of their jobs is appended, and folded later.

Revision ID: 0033
Revises: 0032
"""

import sqlalchemy as sa
from alembic import op

Int = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

revision = "0033"
down_revision = "0032"
branch_labels = None
depends_on = None

COUNTED = (
    *("succeeded", "failed", "quarantined", "estimated_done", "source_tokens", "target_tokens", "segments"),
    *("segments_reused", "documents_reused"),
)


def upgrade() -> None:
    """The table is empty at first: what batches have added so far is in the sums already. (On PostgreSQL it has no
    reference to the job, which every insert would lock.)"""
    references = [
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_deltas_job_id_jobs"), ondelete="CASCADE")
    ]
    op.create_table(
        "deltas",
        sa.Column("id", Int, nullable=False),
        sa.Column("job_id", Int, nullable=False),
        *(sa.Column(name, Int, nullable=False) for name in COUNTED),
        sa.Column("sums", sa.Text(), nullable=False),
        *(references if op.get_bind().dialect.name == "sqlite" else []),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_deltas")),
    )
    op.create_index(op.f("ix_deltas_job_id_id"), "deltas", ["job_id", "id"])


def downgrade() -> None:
    """Nothing may be left to fold: an older version does not know of it."""
    if op.get_bind().execute(sa.text("SELECT 1 FROM deltas LIMIT 1")).first() is not None:
        raise ValueError("deltas are left, which would be lost: fold them before")
    op.drop_table("deltas")
