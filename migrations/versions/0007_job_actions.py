"""a log of what people did to jobs"""

import sqlalchemy as sa
from alembic import op

from jobs.store.schema.clock import UtcDateTime

Int = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "job_actions",
        sa.Column("id", Int, nullable=False),
        sa.Column("job_id", Int, nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=True),
        sa.Column("asked_at", UtcDateTime(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("ended_at", UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_job_actions")),
    )
    op.create_index(op.f("ix_job_actions_job_id_id"), "job_actions", ["job_id", "id"])


def downgrade() -> None:
    op.drop_index(op.f("ix_job_actions_job_id_id"), table_name="job_actions")
    op.drop_table("job_actions")
