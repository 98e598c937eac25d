"""A job has providers: who answered each document, what each provider did, and when the answers came from another one.
The log-probability of a translation may be unknown.

Revision ID: 0012
Revises: 0011
"""

import sqlalchemy as sa
from alembic import op

from jobs.store.schema.clock import UtcDateTime

Int = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

RESULTS = ("translations", "scores", "rankings")
SUMS = ("documents", "failed", "handed_over", "requests", "prompt_tokens", "completion_tokens")
REQUIRED, OPTIONAL = "log_prob FLOAT NOT NULL", "log_prob FLOAT"  # the column in SQLite's CREATE TABLE


def upgrade() -> None:
    op.add_column("jobs", sa.Column("providers", sa.Text(), nullable=True))
    for table in RESULTS:
        op.add_column(table, sa.Column("provider", sa.Text(), nullable=False, server_default="onnx"))
    _require_log_prob(False)
    _create_job_providers()
    _create_handover_counts()
    _create_provider_changes()
    op.execute(
        """INSERT INTO job_providers (job_id, place, provider, model, documents, failed, handed_over, requests,
                                      prompt_tokens, completion_tokens, cost)
           SELECT j.id, 0, 'onnx', j.model, c.succeeded, c.failed + c.quarantined, 0, 0, 0, 0, 0
           FROM jobs j JOIN job_counts c ON c.job_id = j.id"""
    )


def downgrade() -> None:
    op.drop_index(op.f("ix_provider_changes_job_id_id"), table_name="provider_changes")
    op.drop_table("provider_changes")
    op.drop_table("handover_counts")
    op.drop_table("job_providers")
    op.execute("UPDATE translations SET log_prob = 0 WHERE log_prob IS NULL")  # the older version has no unknown one
    _require_log_prob(True)
    for table in RESULTS:
        op.drop_column(table, "provider")
    op.drop_column("jobs", "providers")


def _create_job_providers() -> None:
    op.create_table(
        "job_providers",
        sa.Column("job_id", Int, nullable=False),
        sa.Column("place", Int, nullable=False),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("provider", "model")),
        sa.Column("skipped", sa.Text(), nullable=True),
        *(sa.Column(name, Int, nullable=False) for name in SUMS),
        sa.Column("cost", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_job_providers_job_id_jobs"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job_id", "place", name=op.f("pk_job_providers")),
        sqlite_with_rowid=False,
    )


def _create_handover_counts() -> None:
    op.create_table(
        "handover_counts",
        sa.Column("job_id", Int, nullable=False),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("provider", "code")),
        sa.Column("documents", Int, nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name=op.f("fk_handover_counts_job_id_jobs"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_id", "provider", "code", name=op.f("pk_handover_counts")),
        sqlite_with_rowid=False,
    )


def _create_provider_changes() -> None:
    """On PostgreSQL without a foreign key, as the other tables whose rows a worker writes (migration 0002 says why)."""
    is_sqlite = op.get_bind().dialect.name == "sqlite"
    key = sa.ForeignKeyConstraint(
        ["job_id"], ["jobs.id"], name=op.f("fk_provider_changes_job_id_jobs"), ondelete="CASCADE"
    )
    op.create_table(
        "provider_changes",
        *(sa.Column(name, Int, nullable=False) for name in ("id", "job_id", "shard_id", "epoch", "worker_id", "lane")),
        sa.Column("at", UtcDateTime(), nullable=False),
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("next_provider", sa.Text(), nullable=True),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("code", "reason")),
        sa.Column("documents", Int, nullable=False),
        *([key] if is_sqlite else []),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_provider_changes")),
    )
    op.create_index(op.f("ix_provider_changes_job_id_id"), "provider_changes", ["job_id", "id"])


def _require_log_prob(required: bool) -> None:
    """Whether `translations.log_prob` must not be null; no row is null where it must not be."""
    if op.get_bind().dialect.name != "sqlite":
        op.alter_column("translations", "log_prob", nullable=not required)
    elif required:
        _rewrite_table(OPTIONAL + ",", REQUIRED + ",")
    else:
        _rewrite_table(REQUIRED + ",", OPTIONAL + ",")


def _rewrite_table(old: str, new: str) -> None:
    """Change the text of SQLite's CREATE TABLE, which changes no row: https://sqlite.org/lang_altertable.html,
    section 7. (The usual way writes the table anew, all ten million rows of it.)"""
    connection = op.get_bind()
    named = "type = 'table' AND name = 'translations'"
    created = str(connection.exec_driver_sql(f"SELECT sql FROM sqlite_master WHERE {named}").scalar_one())
    if created.count(old) != 1:
        raise RuntimeError(f"the table translations was not made by kvjobs: {old!r} is not in {created!r}")
    version = connection.exec_driver_sql("PRAGMA schema_version").scalar_one()
    connection.exec_driver_sql("PRAGMA writable_schema = ON")
    connection.exec_driver_sql(f"UPDATE sqlite_master SET sql = ? WHERE {named}", (created.replace(old, new),))
    connection.exec_driver_sql(f"PRAGMA schema_version = {version + 1}")  # other connections read the schema again
    connection.exec_driver_sql("PRAGMA writable_schema = RESET")  # and this one
