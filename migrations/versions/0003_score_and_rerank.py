"""scoring and reranking: their results, and how a corpus was read"""

import sqlalchemy as sa
from alembic import op

from jobs.store.schema.clock import UtcDateTime

Int = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "scores",
        *_key("scores"),
        sa.Column("nll_sum", sa.Float(), nullable=False),
        sa.Column("num_tokens", Int, nullable=False),
        sa.Column("num_words", Int, nullable=False),
        sa.Column("num_bytes", Int, nullable=False),
        sa.Column("num_source_tokens", Int, nullable=False),
        sa.Column("flags", sa.Text(), nullable=False),
        sa.Column("token_scores", sa.Text(), nullable=True),
        *_provenance(),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "rankings",
        *_key("rankings"),
        sa.Column("candidates", sa.Text(), nullable=False),
        sa.Column("num_candidates", Int, nullable=False),
        sa.Column("num_unscored", Int, nullable=False),
        sa.Column("num_tokens", Int, nullable=False),
        sa.Column("num_computed", Int, nullable=False),
        sa.Column("num_shared", Int, nullable=False),
        sa.Column("flags", sa.Text(), nullable=False),
        *_provenance(),
        sqlite_with_rowid=False,
    )
    op.add_column("jobs", sa.Column("reading", sa.Text(), nullable=True))
    op.add_column("documents", sa.Column("unnamed", sa.Boolean(), nullable=False, server_default=sa.false()))


def downgrade() -> None:
    op.drop_column("documents", "unnamed")
    op.drop_column("jobs", "reading")
    op.drop_table("rankings")
    op.drop_table("scores")


def _key(table: str) -> list[sa.schema.SchemaItem]:
    """On PostgreSQL without the reference to the job, for the reason that migration 0002 gives."""
    items: list[sa.schema.SchemaItem] = [
        sa.Column("job_id", Int, nullable=False),
        sa.Column("position", Int, nullable=False),
        sa.PrimaryKeyConstraint("job_id", "position", name=op.f(f"pk_{table}")),
    ]
    if op.get_bind().dialect.name == "sqlite":
        name = op.f(f"fk_{table}_job_id_jobs")
        items.append(sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=name, ondelete="CASCADE"))
    return items


def _provenance() -> list[sa.schema.SchemaItem]:
    return [
        sa.Column("shard_id", Int, nullable=False),
        sa.Column("epoch", Int, nullable=False),
        sa.Column("worker_id", Int, nullable=False),
        sa.Column("finished_at", UtcDateTime(), nullable=False),
    ]
