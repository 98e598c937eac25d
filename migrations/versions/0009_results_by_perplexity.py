"""Results in the order of their perplexity are found by an index.

Revision ID: 0009
Revises: 0008
"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

# Table -> the mean per token that a perplexity is the exponential of, and when there is one.
MEANS = {
    "scores": ("(nll_sum / num_tokens)", "num_tokens > 0"),
    "translations": ("(log_prob / num_target_tokens)", "num_target_tokens > 0"),
}


def upgrade() -> None:
    for table, (mean, is_there) in MEANS.items():
        op.create_index(
            f"ix_{table}_job_id_mean",
            table,
            ["job_id", sa.text(mean), "position"],
            sqlite_where=sa.text(is_there),
            postgresql_where=sa.text(is_there),
        )


def downgrade() -> None:
    for table in MEANS:
        op.drop_index(f"ix_{table}_job_id_mean", table_name=table)
