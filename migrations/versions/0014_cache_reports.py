"""The results of `kvjobs bench cache` are kept.

Revision ID: 0014
Revises: 0013
"""

import sqlalchemy as sa
from alembic import op

from jobs.store.schema.clock import UtcDateTime

Int = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "cache_reports",
        sa.Column("id", Int, nullable=False),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("model", "model_revision", "files_stamp", "kind")),
        sa.Column("stages", Int, nullable=True),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("host", "processor")),
        *(sa.Column(name, Int, nullable=False) for name in ("num_sequences", "source_tokens", "target_tokens")),
        *(sa.Column(name, Int, nullable=False) for name in ("batch_size", "num_beams", "repeats")),
        *(
            sa.Column(f"{which}_{what}", sa.Float(), nullable=False)
            for what in ("s", "step_s", "early_s", "late_s")
            for which in ("cached", "uncached")
        ),
        *(sa.Column(name, Int, nullable=False) for name in ("num_different", "kv_bytes")),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("measured_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_cache_reports")),
    )
    op.create_index(op.f("ix_cache_reports_model_id"), "cache_reports", ["model", "id"])
    op.create_table(
        "cache_report_steps",
        *(sa.Column(name, Int, nullable=False) for name in ("report_id", "step")),
        *(sa.Column(name, sa.Float(), nullable=False) for name in ("cached_s", "uncached_s")),
        sa.ForeignKeyConstraint(
            ["report_id"],
            ["cache_reports.id"],
            name=op.f("fk_cache_report_steps_report_id_cache_reports"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("report_id", "step", name=op.f("pk_cache_report_steps")),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    op.drop_table("cache_report_steps")
    op.drop_index(op.f("ix_cache_reports_model_id"), table_name="cache_reports")
    op.drop_table("cache_reports")
