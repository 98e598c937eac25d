"""Files and batches of OpenAI's API.

Revision ID: 0025
Revises: 0024
"""

import sqlalchemy as sa
from alembic import op

from jobs.store.schema.clock import UtcDateTime

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None

Int = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def _texts(*names: str, nullable: bool = False) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text(), nullable=nullable) for name in names]


def upgrade() -> None:
    op.create_table(
        "uploaded_files",
        sa.Column("number", Int, nullable=False),
        *_texts("id", "owner", "filename", "purpose"),
        sa.Column("num_bytes", Int, nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("expires_at", UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_uploaded_files")),
        sa.UniqueConstraint("id", name=op.f("uq_uploaded_files_id")),
    )
    op.create_index(op.f("ix_uploaded_files_owner_number"), "uploaded_files", ["owner", "number"])
    times = ("in_progress_at", "finalizing_at", "completed_at", "failed_at", "cancelling_at", "cancelled_at")
    counts = ("num_requests", "num_completed", "num_failed", "input_tokens", "output_tokens")
    op.create_table(
        "openai_batches",
        sa.Column("number", Int, nullable=False),
        *_texts("id", "owner"),
        sa.Column("max_open", Int, nullable=True),
        *_texts("input_file_id", "endpoint", "completion_window"),
        *_texts("labels", nullable=True),
        *_texts("status"),
        *_texts("errors", "model", nullable=True),
        sa.Column("job_id", Int, nullable=True),
        *_texts("output_file_id", "error_file_id", nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        *(sa.Column(name, UtcDateTime(), nullable=True) for name in times),
        *(sa.Column(name, Int, nullable=True) for name in counts),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_openai_batches")),
        sa.UniqueConstraint("id", name=op.f("uq_openai_batches_id")),
    )
    op.create_index(op.f("ix_openai_batches_owner_number"), "openai_batches", ["owner", "number"])
    for name in ("status", "job_id"):
        op.create_index(op.f(f"ix_openai_batches_{name}"), "openai_batches", [name])


def downgrade() -> None:
    op.drop_table("openai_batches")
    op.drop_table("uploaded_files")
