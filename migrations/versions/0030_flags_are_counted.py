"""Results are counted by their flags.

Revision ID: 0030
Revises: 0029
"""

from collections import Counter

import sqlalchemy as sa
from alembic import op

Int = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None

TABLES = ("translations", "scores", "rankings", "generations")


def upgrade() -> None:
    """A result has one flag in a few, in few combinations: those are counted by the database, and divided here."""
    counts = op.create_table(
        "flag_counts",
        sa.Column("job_id", Int, nullable=False),
        sa.Column("flag", sa.Text(), nullable=False),
        sa.Column("documents", Int, nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_flag_counts_job_id_jobs"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job_id", "flag", name=op.f("pk_flag_counts")),
        sqlite_with_rowid=False,
    )
    found: Counter[tuple[int, str]] = Counter()
    for table in TABLES:
        # PostgreSQL has no reference from results to the job, so a row could be left of one that is gone.
        sql = f"SELECT job_id, flags, COUNT(*) FROM {table} WHERE flags <> '' AND job_id IN (SELECT id FROM jobs) "
        for job_id, flags, documents in op.get_bind().execute(sa.text(f"{sql} GROUP BY job_id, flags")):
            for flag in flags.split():
                found[job_id, flag] += documents
    rows = [{"job_id": job_id, "flag": flag, "documents": number} for (job_id, flag), number in found.items()]
    if rows:
        op.bulk_insert(counts, rows)


def downgrade() -> None:
    op.drop_table("flag_counts")
