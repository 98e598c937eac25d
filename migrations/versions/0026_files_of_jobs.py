"""Files that come back translated.

Revision ID: 0026
Revises: 0025
"""

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None

Int = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
NAME = "job_files"


def upgrade() -> None:
    op.create_table(
        NAME,
        *(sa.Column(name, Int, nullable=False) for name in ("job_id", "number")),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("path", "digest")),
        *(sa.Column(name, Int, nullable=False) for name in ("num_bytes", "first", "documents")),
        sa.Column("translated", sa.Boolean(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("content", sa.LargeBinary(), nullable=True),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f(f"fk_{NAME}_job_id_jobs"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job_id", "number", name=op.f(f"pk_{NAME}")),
    )


def downgrade() -> None:
    op.drop_table(NAME)
