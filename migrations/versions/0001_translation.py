"""the tables of translation"""

import sqlalchemy as sa
from alembic import op

from jobs.store.schema.clock import UtcDateTime

Int = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "jobs",
        sa.Column("id", Int, nullable=False),
        sa.Column("name", sa.Text(), nullable=True),
        sa.Column("task", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("model_revision", sa.Text(), nullable=False),
        sa.Column("options", sa.Text(), nullable=False),
        sa.Column("options_digest", sa.Text(), nullable=False),
        sa.Column("content_key", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("corpus_digest", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("priority", Int, nullable=False),
        sa.Column("paused", sa.Boolean(), nullable=False),
        sa.Column("cancel_requested_at", UtcDateTime(), nullable=True),
        sa.Column("ingested", Int, nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("ingested_at", UtcDateTime(), nullable=True),
        sa.Column("started_at", UtcDateTime(), nullable=True),
        sa.Column("finished_at", UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_jobs")),
        sa.UniqueConstraint("content_key", name=op.f("uq_jobs_content_key")),
        sa.UniqueConstraint("name", name=op.f("uq_jobs_name")),
    )
    op.create_index(op.f("ix_jobs_state_priority"), "jobs", ["state", "priority"], unique=False)
    op.create_table(
        "translation_memory",
        sa.Column("key", sa.LargeBinary(), nullable=False),
        sa.Column("texts", sa.Text(), nullable=False),
        sa.Column("scores", sa.Text(), nullable=False),
        sa.Column("log_prob", sa.Float(), nullable=False),
        sa.Column("num_source_tokens", Int, nullable=False),
        sa.Column("num_target_tokens", Int, nullable=False),
        sa.Column("flags", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_translation_memory")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "workers",
        sa.Column("id", Int, nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("machine", sa.Text(), nullable=False),
        sa.Column("pid", Int, nullable=False),
        sa.Column("process_started", sa.Float(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("device", sa.Text(), nullable=False),
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("lanes", Int, nullable=False),
        sa.Column("models", sa.Text(), nullable=False),
        sa.Column("kv_bytes", Int, nullable=False),
        sa.Column("buffer_allocations", Int, nullable=False),
        sa.Column("buffer_reuses", Int, nullable=False),
        sa.Column("started_at", UtcDateTime(), nullable=False),
        sa.Column("heartbeat_at", UtcDateTime(), nullable=False),
        sa.Column("stopped_at", UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_workers")),
    )
    op.create_table(
        "documents",
        sa.Column("job_id", Int, nullable=False),
        sa.Column("position", Int, nullable=False),
        sa.Column("external_id", sa.Text(), nullable=True),
        sa.Column("numeric_id", sa.Boolean(), nullable=False),
        sa.Column("line", Int, nullable=False),
        sa.Column("text", sa.Text(), nullable=True),
        sa.Column("fields", sa.Text(), nullable=True),
        sa.Column("estimated_tokens", Int, nullable=False),
        sa.Column("status", sa.Text(), nullable=True),
        sa.Column("error_code", sa.Text(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_documents_job_id_jobs"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job_id", "position", name=op.f("pk_documents")),
        sa.UniqueConstraint("job_id", "external_id", name=op.f("uq_documents_job_id_external_id")),
        sqlite_with_rowid=False,
    )
    op.create_index(
        op.f("ix_documents_job_id_status_error_code"),
        "documents",
        ["job_id", "status", "error_code"],
        unique=False,
        sqlite_where=sa.text("status IS NOT NULL"),
        postgresql_where=sa.text("status IS NOT NULL"),
    )
    op.create_table(
        "job_counts",
        sa.Column("job_id", Int, nullable=False),
        sa.Column("documents", Int, nullable=False),
        sa.Column("succeeded", Int, nullable=False),
        sa.Column("rejected", Int, nullable=False),
        sa.Column("failed", Int, nullable=False),
        sa.Column("quarantined", Int, nullable=False),
        sa.Column("cancelled", Int, nullable=False),
        sa.Column("shards", Int, nullable=False),
        sa.Column("shards_open", Int, nullable=False),
        sa.Column("estimated_tokens", Int, nullable=False),
        sa.Column("estimated_done", Int, nullable=False),
        sa.Column("source_tokens", Int, nullable=False),
        sa.Column("target_tokens", Int, nullable=False),
        sa.Column("segments", Int, nullable=False),
        sa.Column("segments_reused", Int, nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_job_counts_job_id_jobs"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job_id", name=op.f("pk_job_counts")),
    )
    op.create_table(
        "shard_events",
        sa.Column("id", Int, nullable=False),
        sa.Column("job_id", Int, nullable=False),
        sa.Column("shard_id", Int, nullable=False),
        sa.Column("at", UtcDateTime(), nullable=False),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("epoch", Int, nullable=False),
        sa.Column("worker_id", Int, nullable=True),
        sa.Column("documents", Int, nullable=True),
        sa.Column("detail", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_shard_events_job_id_jobs"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_shard_events")),
    )
    op.create_index(op.f("ix_shard_events_job_id_shard_id"), "shard_events", ["job_id", "shard_id"], unique=False)
    op.create_table(
        "shards",
        sa.Column("id", Int, nullable=False),
        sa.Column("job_id", Int, nullable=False),
        sa.Column("start", Int, nullable=False),
        sa.Column("stop", Int, nullable=False),
        sa.Column("estimated_tokens", Int, nullable=False),
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("available_at", UtcDateTime(), nullable=False),
        sa.Column("lease_owner", Int, nullable=True),
        sa.Column("lane", Int, nullable=True),
        sa.Column("lease_epoch", Int, nullable=False),
        sa.Column("lease_until", UtcDateTime(), nullable=True),
        sa.Column("in_flight", sa.Text(), nullable=True),
        sa.Column("attempts", Int, nullable=False),
        sa.Column("crashes", Int, nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_shards_job_id_jobs"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_shards")),
    )
    op.create_index(op.f("ix_shards_job_id_state_id"), "shards", ["job_id", "state", "id"], unique=False)
    op.create_index(op.f("ix_shards_state_lease_until"), "shards", ["state", "lease_until"], unique=False)
    op.create_table(
        "steps",
        sa.Column("id", Int, nullable=False),
        sa.Column("job_id", Int, nullable=False),
        sa.Column("shard_id", Int, nullable=False),
        sa.Column("epoch", Int, nullable=False),
        sa.Column("worker_id", Int, nullable=False),
        sa.Column("lane", Int, nullable=False),
        sa.Column("phase", sa.Text(), nullable=False),
        sa.Column("step", Int, nullable=False),
        sa.Column("rows", Int, nullable=False),
        sa.Column("tokens", Int, nullable=False),
        sa.Column("past_length", Int, nullable=False),
        sa.Column("calls", Int, nullable=False),
        sa.Column("seconds", sa.Float(), nullable=False),
        sa.Column("recorded_at", UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_steps_job_id_jobs"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_steps")),
    )
    op.create_index(op.f("ix_steps_job_id"), "steps", ["job_id"], unique=False)
    op.create_table(
        "translations",
        sa.Column("job_id", Int, nullable=False),
        sa.Column("position", Int, nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("log_prob", sa.Float(), nullable=False),
        sa.Column("num_segments", Int, nullable=False),
        sa.Column("num_reused", Int, nullable=False),
        sa.Column("num_source_tokens", Int, nullable=False),
        sa.Column("num_target_tokens", Int, nullable=False),
        sa.Column("flags", sa.Text(), nullable=False),
        sa.Column("alternatives", sa.Text(), nullable=True),
        sa.Column("shard_id", Int, nullable=False),
        sa.Column("epoch", Int, nullable=False),
        sa.Column("worker_id", Int, nullable=False),
        sa.Column("finished_at", UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_translations_job_id_jobs"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job_id", "position", name=op.f("pk_translations")),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    op.drop_table("translations")
    op.drop_index(op.f("ix_steps_job_id"), table_name="steps")
    op.drop_table("steps")
    op.drop_index(op.f("ix_shards_state_lease_until"), table_name="shards")
    op.drop_index(op.f("ix_shards_job_id_state_id"), table_name="shards")
    op.drop_table("shards")
    op.drop_index(op.f("ix_shard_events_job_id_shard_id"), table_name="shard_events")
    op.drop_table("shard_events")
    op.drop_table("job_counts")
    op.drop_table("documents")
    op.drop_table("workers")
    op.drop_table("translation_memory")
    op.drop_index(op.f("ix_jobs_state_priority"), table_name="jobs")
    op.drop_table("jobs")
