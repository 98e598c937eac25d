"""the fleet: who may do what, and who looks after it"""

import sqlalchemy as sa
from alembic import op

from jobs.store.schema.clock import UtcDateTime

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

# PostgreSQL looks up the job once a row that is inserted: 200,000 documents by COPY took 2.6 s with the constraint, 1.2
# without. Rows of these are written only by transactions that have the job's row at hand, and deleted before it.
UNREFERENCED = ("documents", "translations", "steps", "shard_events")


def upgrade() -> None:
    op.create_table(
        "posts",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("held_until", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_posts")),
    )
    op.add_column("jobs", sa.Column("queue", sa.Text(), nullable=False, server_default="cpu"))
    op.add_column("jobs", sa.Column("ingest_digest", sa.Text(), nullable=True))
    op.add_column("workers", sa.Column("queues", sa.Text(), nullable=False, server_default="cpu"))
    op.add_column("workers", sa.Column("node", sa.Text(), nullable=True))
    if op.get_bind().dialect.name == "postgresql":
        for table in UNREFERENCED:
            op.drop_constraint(f"fk_{table}_job_id_jobs", table, type_="foreignkey")


def downgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        for table in UNREFERENCED:
            op.create_foreign_key(f"fk_{table}_job_id_jobs", table, "jobs", ["job_id"], ["id"], ondelete="CASCADE")
    op.drop_column("workers", "node")
    op.drop_column("workers", "queues")
    op.drop_column("jobs", "ingest_digest")
    op.drop_column("jobs", "queue")
    op.drop_table("posts")
