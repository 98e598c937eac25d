"""The results of jobs that continue prompts.

Revision ID: 0013
Revises: 0012
"""

import sqlalchemy as sa
from alembic import op

from jobs.store.schema.clock import UtcDateTime

Int = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """On PostgreSQL without a foreign key, as the other tables whose rows a worker writes (migration 0002 says why)."""
    is_sqlite = op.get_bind().dialect.name == "sqlite"
    key = sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_generations_job_id_jobs"), ondelete="CASCADE")
    op.create_table(
        "generations",
        *(sa.Column(name, Int, nullable=False) for name in ("job_id", "position")),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("log_prob", sa.Float(), nullable=True),
        sa.Column("finish", sa.Text(), nullable=False),
        *(sa.Column(name, Int, nullable=False) for name in ("num_prompt_tokens", "num_shared", "num_new_tokens")),
        sa.Column("flags", sa.Text(), nullable=False),
        *(sa.Column(name, Int, nullable=False) for name in ("shard_id", "epoch", "worker_id")),
        sa.Column("finished_at", UtcDateTime(), nullable=False),
        sa.Column("provider", sa.Text(), nullable=False, server_default="onnx"),
        *([key] if is_sqlite else []),
        sa.PrimaryKeyConstraint("job_id", "position", name=op.f("pk_generations")),
        sqlite_with_rowid=False,
    )
    is_there = sa.text("num_new_tokens > 0")
    op.create_index(
        "ix_generations_job_id_mean",
        "generations",
        ["job_id", sa.text("(log_prob / num_new_tokens)"), "position"],
        sqlite_where=is_there,
        postgresql_where=is_there,
    )


def downgrade() -> None:
    op.drop_table("generations")
