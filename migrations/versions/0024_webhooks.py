"""Webhooks: where an event of a job goes, and what became of it.

Revision ID: 0024
Revises: 0023
"""

import sqlalchemy as sa
from alembic import op

from jobs.store.schema.clock import UtcDateTime

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None

Int = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
IS_DUE = sa.text("next_try_at IS NOT NULL")
NAME = "webhook_deliveries"


def upgrade() -> None:
    op.add_column("jobs", sa.Column("notify", sa.Text(), nullable=True))
    op.create_table(
        NAME,
        sa.Column("id", Int, nullable=False),
        sa.Column("job_id", Int, nullable=False),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("message_id", "event", "payload", "url")),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("attempts", Int, nullable=False),
        *(sa.Column(name, UtcDateTime(), nullable=True) for name in ("next_try_at", "delivered_at")),
        sa.Column("last_status", Int, nullable=True),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f(f"fk_{NAME}_job_id_jobs"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f(f"pk_{NAME}")),
        sa.UniqueConstraint("message_id", name=op.f(f"uq_{NAME}_message_id")),
    )
    op.create_index(op.f(f"ix_{NAME}_job_id_id"), NAME, ["job_id", "id"])
    op.create_index(op.f(f"ix_{NAME}_next_try_at"), NAME, ["next_try_at"], sqlite_where=IS_DUE, postgresql_where=IS_DUE)


def downgrade() -> None:
    op.drop_index(op.f(f"ix_{NAME}_next_try_at"), table_name=NAME)
    op.drop_index(op.f(f"ix_{NAME}_job_id_id"), table_name=NAME)
    op.drop_table(NAME)
    op.drop_column("jobs", "notify")
