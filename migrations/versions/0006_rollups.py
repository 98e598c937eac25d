"""rollups: sums of timings, results and failures, so that reports need not read every row; segments of translations"""

import math
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from alembic import op

from jobs.store.schema.clock import UtcDateTime

Int = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

# The columns of the rollups with a row for each key, and which of them are the key.
SUMS: dict[str, tuple[list[sa.Column[Any]], tuple[str, ...]]] = {
    "phase_sums": (
        [sa.Column("phase", sa.Text()), *(sa.Column(name, Int) for name in ("calls", "rows", "tokens"))],
        ("phase",),
    ),
    "step_sums": (
        [
            sa.Column("phase", sa.Text()),
            sa.Column("step", Int),
            *(sa.Column(name, Int) for name in ("calls", "rows", "tokens")),
        ],
        ("phase", "step"),
    ),
    "past_length_sums": ([sa.Column(name, Int) for name in ("past_length", "calls", "rows")], ("past_length",)),
    "minute_sums": (
        [
            sa.Column("minute", UtcDateTime()),
            *(sa.Column(name, Int) for name in ("documents", "failed", "source_tokens", "target_tokens")),
        ],
        ("minute",),
    ),
    "measure_counts": (
        [sa.Column("measure", sa.Text()), sa.Column("bucket", Int), sa.Column("documents", Int)],
        ("measure", "bucket"),
    ),
    "failure_counts": (
        [sa.Column("status", sa.Text()), sa.Column("error_code", sa.Text()), sa.Column("documents", Int)],
        ("status", "error_code"),
    ),
}
TIMED = ("phase_sums", "step_sums", "past_length_sums")
# Tokens of source and target of a result, by its table.
TOKENS = {
    "translations": ("num_source_tokens", "num_target_tokens"),
    "scores": ("num_source_tokens", "num_tokens"),
    "rankings": ("num_computed", "num_tokens"),
}
MODEL_PHASES = "('encode', 'prefill', 'decode', 'head')"
# PostgreSQL has no reference from most tables to the job, so a row could be left of one that is gone.
EXISTS = "job_id IN (SELECT id FROM jobs)"
EIGHTHS_PER_NAT = 8 / math.log(2)  # buckets of perplexity: floor(8 log2(exp(nats per token))), 0 .. 255


def upgrade() -> None:
    op.add_column("translations", sa.Column("segments", sa.Text(), nullable=True))
    for table, (columns, key) in SUMS.items():
        seconds = [sa.Column("seconds", sa.Float(), nullable=False)] if table in TIMED else []
        for column in columns:
            column.nullable = False
        op.create_table(
            table,
            sa.Column("job_id", Int, nullable=False),
            *(column._copy() for column in columns),
            *seconds,
            sa.PrimaryKeyConstraint("job_id", *key, name=op.f(f"pk_{table}")),
            _of_job(table),
            sqlite_with_rowid=False,
        )
    op.create_table(
        "batches",
        sa.Column("id", Int, nullable=False),
        *(sa.Column(name, Int, nullable=False) for name in ("job_id", "shard_id", "epoch", "worker_id", "lane")),
        sa.Column("ended_at", UtcDateTime(), nullable=False),
        *(sa.Column(name, Int, nullable=False) for name in ("documents", "failed", "source_tokens", "target_tokens")),
        *(sa.Column(name, Int, nullable=False) for name in ("calls", "rows", "tokens")),
        *(sa.Column(name, sa.Float(), nullable=False) for name in ("busy_s", "model_s")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_batches")),
        # On PostgreSQL without the reference to the job, for the reason that migration 0002 gives.
        *([_of_job("batches")] if _is_sqlite() else []),
    )
    for statement in (*_timings(), *_batches(), _minutes(), *_perplexities(), _failures()):
        op.execute(statement)
    _lengths()
    op.create_index(op.f("ix_batches_job_id_id"), "batches", ["job_id", "id"])


def downgrade() -> None:
    op.drop_table("batches")
    for table in SUMS:
        op.drop_table(table)
    op.drop_column("translations", "segments")


def _of_job(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f(f"fk_{table}_job_id_jobs"), ondelete="CASCADE")


def _is_sqlite() -> bool:
    return bool(op.get_bind().dialect.name == "sqlite")


def _timings() -> Iterator[str]:
    sums = "sum(calls), sum(rows), sum(tokens), sum(seconds)"
    yield f"""INSERT INTO phase_sums (job_id, phase, calls, rows, tokens, seconds)
        SELECT job_id, phase, {sums} FROM steps GROUP BY job_id, phase HAVING {EXISTS}"""
    yield f"""INSERT INTO step_sums (job_id, phase, step, calls, rows, tokens, seconds)
        SELECT job_id, phase, step, {sums} FROM steps WHERE phase IN ('prefill', 'decode')
        GROUP BY job_id, phase, step HAVING {EXISTS}"""
    # The past length of a timing of several calls is the sum of theirs.
    yield f"""INSERT INTO past_length_sums (job_id, past_length, calls, rows, seconds)
        SELECT job_id, past_length / 32 * 32, sum(calls), sum(rows), sum(seconds) FROM steps
        WHERE phase = 'decode' AND calls = 1 GROUP BY job_id, past_length / 32 * 32 HAVING {EXISTS}"""


def _batches() -> Iterator[str]:
    """One per accepted batch in the log. Results and timings were written before the event of their batch and behind
    that of the previous one, so times tell which batch of their lease they belong to; where a clock was set back
    meanwhile, it is taken to be the last."""
    yield """CREATE TEMPORARY TABLE accepted AS
        SELECT e.id, e.job_id, e.shard_id, e.epoch, e.worker_id, e.at AS ended_at, e.documents
        FROM shard_events e JOIN jobs j ON j.id = e.job_id WHERE e.event = 'recorded'"""
    yield "CREATE INDEX accepted_of_lease ON accepted (shard_id, epoch, ended_at)"
    if not _is_sqlite():
        yield "ANALYZE accepted"
    written = " UNION ALL ".join(
        f"SELECT {_batch_of('finished_at')} AS id, {source} AS source_tokens, {target} AS target_tokens"
        f" FROM {results} r"
        for results, (source, target) in TOKENS.items()
    )
    yield f"""CREATE TEMPORARY TABLE written AS
        SELECT id, count(*) AS documents, sum(source_tokens) AS source_tokens, sum(target_tokens) AS target_tokens
        FROM ({written}) AS results WHERE id IS NOT NULL GROUP BY id"""
    yield f"""CREATE TEMPORARY TABLE timed AS
        SELECT id, max(lane) AS lane, sum(calls) AS calls, sum(rows) AS rows, sum(tokens) AS tokens,
               sum(seconds) AS busy_s, sum(CASE WHEN phase IN {MODEL_PHASES} THEN seconds ELSE 0 END) AS model_s
        FROM (SELECT {_batch_of("recorded_at")} AS id, lane, calls, rows, tokens, seconds, phase FROM steps r) AS known
        WHERE id IS NOT NULL GROUP BY id"""
    yield """INSERT INTO batches (job_id, shard_id, epoch, worker_id, lane, ended_at, documents, failed, source_tokens,
                                 target_tokens, calls, rows, tokens, busy_s, model_s)
        SELECT a.job_id, a.shard_id, a.epoch, a.worker_id, coalesce(t.lane, 0), a.ended_at,
               coalesce(w.documents, 0),
               CASE WHEN a.documents > coalesce(w.documents, 0) THEN a.documents - coalesce(w.documents, 0) ELSE 0 END,
               coalesce(w.source_tokens, 0), coalesce(w.target_tokens, 0),
               coalesce(t.calls, 0), coalesce(t.rows, 0), coalesce(t.tokens, 0),
               coalesce(t.busy_s, 0), coalesce(t.model_s, 0)
        FROM accepted a LEFT JOIN written w ON w.id = a.id LEFT JOIN timed t ON t.id = a.id ORDER BY a.id"""
    for table in ("timed", "written", "accepted"):
        yield f"DROP TABLE {table}"


def _batch_of(time: str) -> str:
    """SQL for the batch in `accepted` that a row `r`, written at `time`, belongs to; null where the log has none."""
    lease = "a.shard_id = r.shard_id AND a.epoch = r.epoch AND a.job_id = r.job_id"
    return (
        f"coalesce((SELECT a.id FROM accepted a WHERE {lease} AND a.ended_at >= r.{time} ORDER BY a.ended_at LIMIT 1),"
        f" (SELECT a.id FROM accepted a WHERE {lease} ORDER BY a.ended_at DESC LIMIT 1))"
    )


def _minutes() -> str:
    """Results by when they were recorded; failures, which have no time, by that of their batch."""

    def minute(time: str) -> str:
        return f"substr({time}, 1, 16) || '\\:00.000'" if _is_sqlite() else f"date_trunc('minute', {time})"

    recorded = " UNION ALL ".join(
        f"SELECT job_id, {minute('finished_at')} AS minute, 1 AS documents, 0 AS failed, {source} AS source_tokens,"
        f" {target} AS target_tokens FROM {results}"
        for results, (source, target) in TOKENS.items()
    )
    return f"""INSERT INTO minute_sums (job_id, minute, documents, failed, source_tokens, target_tokens)
        SELECT job_id, minute, sum(documents), sum(failed), sum(source_tokens), sum(target_tokens)
        FROM ({recorded} UNION ALL
              SELECT job_id, {minute("ended_at")}, 0, failed, 0, 0 FROM batches WHERE failed > 0) AS ended
        GROUP BY job_id, minute HAVING {EXISTS}"""


def _perplexities() -> Iterator[sa.TextClause]:
    floor = "CAST(place AS INTEGER)" if _is_sqlite() else "CAST(floor(place) AS bigint)"
    for results, mean in (("scores", "nll_sum / num_tokens"), ("translations", "-log_prob / num_target_tokens")):
        number = mean.split(" / ")[1]
        yield sa.text(
            f"""INSERT INTO measure_counts (job_id, measure, bucket, documents)
            SELECT job_id, 'perplexity', bucket, count(*)
            FROM (SELECT job_id, CASE WHEN place < 0 THEN 0 WHEN place >= 255 THEN 255 ELSE {floor} END AS bucket
                  FROM (SELECT job_id, {mean} * CAST(:eighths_per_nat AS double precision) AS place
                        FROM {results} WHERE {number} > 0) AS places) AS buckets
            GROUP BY job_id, bucket HAVING {EXISTS}"""
        ).bindparams(eighths_per_nat=EIGHTHS_PER_NAT)


def _failures() -> str:
    return f"""INSERT INTO failure_counts (job_id, status, error_code, documents)
        SELECT job_id, status, coalesce(error_code, ''), count(*) FROM documents
        WHERE status IN ('rejected', 'failed', 'quarantined') GROUP BY job_id, status, coalesce(error_code, '')
        HAVING {EXISTS}"""


def _lengths() -> None:
    """The histogram of lengths: floor(4 log2(tokens)), 0 .. 95. Neither database has a logarithm that is exact for
    powers of two."""
    connection = op.get_bind()
    counted: dict[tuple[int, int], int] = {}
    for results, number in (("scores", "num_tokens"), ("translations", "num_source_tokens")):
        found = connection.execute(
            sa.text(
                f"SELECT job_id, {number} AS length, count(*) AS documents FROM {results} WHERE {number} > 0"
                f" GROUP BY job_id, {number} HAVING {EXISTS}"
            )
        )
        for row in found:
            key = (row.job_id, min(95, math.floor(4 * math.log2(row.length))))
            counted[key] = counted.get(key, 0) + row.documents
    rows = [
        {"job_id": job_id, "bucket": bucket, "documents": documents} for (job_id, bucket), documents in counted.items()
    ]
    if rows:
        insert = "INSERT INTO measure_counts (job_id, measure, bucket, documents) VALUES (:job_id, 'length', :bucket, "
        connection.execute(sa.text(insert + ":documents)"), rows)
