"""Jobs that are stages of a chain, and the documents that a filter keeps.

Revision ID: 0017
Revises: 0016
"""

import sqlalchemy as sa
from alembic import op

from jobs.store.schema.clock import UtcDateTime

Int = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for name in ("chain", "stage", "reads"):
        op.add_column("jobs", sa.Column(name, Int, nullable=True))
    op.create_index(op.f("ix_jobs_chain_stage"), "jobs", ["chain", "stage"], unique=True)
    op.add_column("job_counts", sa.Column("skipped", Int, nullable=False, server_default="0"))
    on_sqlite = op.get_bind().dialect.name == "sqlite"
    keys = [sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_passes_job_id_jobs"), ondelete="CASCADE")]
    op.create_table(
        "passes",
        *(sa.Column(name, Int, nullable=False) for name in ("job_id", "position")),
        sa.Column("flags", sa.Text(), nullable=False),
        *(sa.Column(name, Int, nullable=False) for name in ("shard_id", "epoch", "worker_id")),
        sa.Column("finished_at", UtcDateTime(), nullable=False),
        sa.Column("provider", sa.Text(), nullable=False, server_default="onnx"),
        *(keys if on_sqlite else []),
        sa.PrimaryKeyConstraint("job_id", "position", name=op.f("pk_passes")),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    op.drop_table("passes")
    op.drop_column("job_counts", "skipped")
    op.drop_index(op.f("ix_jobs_chain_stage"), table_name="jobs")
    for name in ("reads", "stage", "chain"):
        op.drop_column("jobs", name)
