"""Recorders of a job wait for each other at a row, which a role that may only read cannot lock.

Revision ID: 0020
Revises: 0019
"""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

Int = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "job_turns",
        sa.Column("job_id", Int, nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_job_turns_job_id_jobs"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job_id", name=op.f("pk_job_turns")),
    )
    op.execute("INSERT INTO job_turns (job_id) SELECT id FROM jobs")


def downgrade() -> None:
    op.drop_table("job_turns")
