"""a memory of scores, and how many documents of a job were known to it"""

import sqlalchemy as sa
from alembic import op

Int = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "score_memory",
        sa.Column("key", sa.LargeBinary(), nullable=False),
        sa.Column("nll_sum", sa.Float(), nullable=False),
        sa.Column("num_tokens", Int, nullable=False),
        sa.Column("num_words", Int, nullable=False),
        sa.Column("num_bytes", Int, nullable=False),
        sa.Column("num_source_tokens", Int, nullable=False),
        sa.Column("flags", sa.Text(), nullable=False),
        sa.Column("token_scores", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_score_memory")),
        sqlite_with_rowid=False,
    )
    op.add_column("scores", sa.Column("num_reused", Int, nullable=False, server_default="0"))
    op.add_column("job_counts", sa.Column("documents_reused", Int, nullable=False, server_default="0"))


def downgrade() -> None:
    op.drop_column("job_counts", "documents_reused")
    op.drop_column("scores", "num_reused")
    op.drop_table("score_memory")
