"""The public views, which dashboards and people query. Their columns stay; new ones are added at the end.

Every upgrade drops the views and creates them again, so each is defined here and in no migration.
"""

from collections.abc import Iterator, Sequence

from sqlalchemy import Connection, text

from jobs.measures import LARGEST_EXPONENT, LN_2
from jobs.tasks.kind import VIEW_ORDER, Derived, Field
from jobs.tasks.kinds import KINDS, RESULT_COLUMNS

VIEWS = {
    # A row per job, from counters alone: as fast with ten million documents as with ten.
    "v_jobs": """
        SELECT j.id AS job_id, j.name, j.task, j.model, j.state, j.paused, j.priority, j.reason, j.source,
               c.documents, c.succeeded, c.rejected, c.failed, c.quarantined, c.cancelled,
               c.documents - c.succeeded - c.rejected - c.failed - c.quarantined - c.cancelled - c.skipped AS waiting,
               c.shards, c.shards_open, c.estimated_tokens, c.estimated_done,
               c.source_tokens, c.target_tokens, c.segments, c.segments_reused,
               j.created_at, j.ingested_at, j.started_at, j.finished_at, j.queue, c.documents_reused,
               c.skipped, j.chain, j.stage, j.paused_at, j.idle_s
        FROM jobs j JOIN job_counts c ON c.job_id = j.id""",
    # A row per document, with its result where there is one.
    "v_documents": "SELECT {columns} FROM documents d {results}",
    # A row per model call (or other phase of a batch).
    "v_steps": """
        SELECT s.job_id, s.shard_id, s.epoch, w.host, s.worker_id, s.lane, s.phase, s.step, s.rows, s.tokens,
               s.past_length, s.calls, s.seconds, s.recorded_at
        FROM steps s LEFT JOIN workers w ON w.id = s.worker_id""",
    # A row per job and phase: where the seconds went. (Its integers are numeric on PostgreSQL: once they were sums
    # over `steps`, and the types of a view stay.)
    "v_phases": """
        SELECT job_id, phase, CAST(calls AS numeric) AS calls, CAST(rows AS numeric) AS rows,
               CAST(tokens AS numeric) AS tokens, seconds
        FROM phase_sums""",
    # A row per shard. `available_at` says since when it is ready, by the database's clock; nothing depends on it.
    "v_shards": """
        SELECT s.id AS shard_id, s.job_id, s.start, s.stop, s.estimated_tokens, s.queue, s.state, s.available_at,
               s.lease_owner AS worker_id, s.lane, s.lease_epoch AS epoch, s.lease_until, s.in_flight,
               s.attempts, s.crashes
        FROM shards s""",
    "v_shard_events": """
        SELECT e.job_id, e.shard_id, e.at, e.event, e.epoch, e.worker_id, e.documents, e.detail FROM shard_events e""",
    "v_workers": """
        SELECT id AS worker_id, host, pid, version, device, provider, lanes, models, kv_bytes, buffer_allocations,
               buffer_reuses, started_at, heartbeat_at, stopped_at, queues, node, asked_to, asked_by, asked_at,
               parent_pid, killed
        FROM workers""",
    # A row per job and minute in which a document or a timed batch ended. {minute} differs between the databases.
    "v_throughput": """
        SELECT job_id, {minute} AS minute, documents, CAST(source_tokens AS numeric) AS source_tokens,
               CAST(target_tokens AS numeric) AS target_tokens, failed, busy_s, model_s
        FROM minute_sums""",
    # A row per recorded batch.
    "v_batches": """
        SELECT id AS batch_id, job_id, shard_id, epoch, worker_id, lane, ended_at, documents, failed, source_tokens,
               target_tokens, calls, rows, tokens, busy_s, model_s
        FROM batches""",
    # Rows per job: its decoder calls by step and by past length, its failures by reason, its histograms.
    "v_decoder_steps": "SELECT job_id, phase, step, calls, rows, tokens, seconds FROM step_sums",
    "v_past_lengths": "SELECT job_id, past_length, calls, rows, seconds FROM past_length_sums",
    "v_failures": "SELECT job_id, status, NULLIF(error_code, '') AS error_code, documents FROM failure_counts",
    "v_measures": "SELECT job_id, measure, bucket, documents FROM measure_counts",
    # A row per job and provider; per reason why one did not answer; per moment at which one failed or answered again.
    "v_job_providers": """
        SELECT job_id, place, provider, model, skipped, documents, failed, handed_over, requests, prompt_tokens,
               completion_tokens, cost
        FROM job_providers""",
    "v_handovers": "SELECT job_id, provider, code, documents, reason FROM handover_counts",
    "v_provider_changes": """
        SELECT id AS change_id, job_id, shard_id, epoch, worker_id, lane, at, provider, next_provider, code, reason,
               documents
        FROM provider_changes""",
    # A row per measurement of `kvjobs bench cache`, and per step of one.
    "v_cache_reports": """
        SELECT id AS report_id, model, model_revision, kind, stages, host, processor, num_sequences, source_tokens,
               target_tokens, batch_size, num_beams, repeats, cached_s, uncached_s,
               uncached_s / NULLIF(cached_s, 0) AS ratio, cached_step_s, uncached_step_s,
               cached_early_s, uncached_early_s, cached_late_s, uncached_late_s,
               cached_late_s / NULLIF(cached_early_s, 0) AS cached_growth,
               uncached_late_s / NULLIF(uncached_early_s, 0) AS uncached_growth,
               num_different, kv_bytes, version, measured_at
        FROM cache_reports""",
    "v_cache_report_steps": """
        SELECT s.report_id, r.model, r.stages, r.target_tokens, s.step, s.cached_s, s.uncached_s
        FROM cache_report_steps s JOIN cache_reports r ON r.id = s.report_id""",
}
VIEW_NAMES = tuple(VIEWS)
INFINITY = {"sqlite": "9e999", "postgresql": "CAST('Infinity' AS double precision)"}
MINUTE = {"sqlite": "substr(minute, 1, 16)", "postgresql": "minute"}


# For PostgreSQL a function that SQLite has: a value in a document's other fields, for `--where` and for queries.
JSON_EXTRACT = """
    CREATE OR REPLACE FUNCTION json_extract(document text, path text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$ SELECT jsonb_path_query_first(document::jsonb, path::jsonpath) #>> '{}' $$"""


def create_views(connection: Connection) -> None:
    """Create every view; none may exist yet."""
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(JSON_EXTRACT)
    for name, definition in _definitions(connection).items():
        connection.execute(text(f"CREATE VIEW {name} AS {definition}"))


def drop_views(connection: Connection) -> None:
    """Drop every view."""
    for name in _definitions(connection):
        connection.execute(text(f"DROP VIEW IF EXISTS {name}"))
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("DROP FUNCTION IF EXISTS json_extract(text, text)")


def _definitions(connection: Connection) -> dict[str, str]:
    dialect = connection.dialect.name
    differing = {"minute": MINUTE[dialect], "columns": ", ".join(_columns(INFINITY[dialect])), "results": _joins()}
    return {name: definition.format(**differing) for name, definition in VIEWS.items()}


# In `v_documents`: the table of each task's results by a letter; the columns of a document; those of every result.
_TABLES = {kind.name: (kind.table[0], kind.table) for kind in KINDS.values()}
_OF_DOCUMENT = {"id": "d.external_id", **{name: f"d.{name}" for name in ("job_id", "position", "line", "text")}}
_OF_DOCUMENT |= {name: f"d.{name}" for name in ("fields", "error_code", "error", "route")}
_OF_RESULT = ("flags", "shard_id", "epoch", "worker_id", "finished_at", "provider")


def _joins() -> str:
    """The results of all tasks: a document has at most one."""
    return " ".join(
        f"LEFT JOIN {table} {letter} ON {letter}.job_id = d.job_id AND {letter}.position = d.position"
        for letter, table in _TABLES.values()
    )


def _columns(infinity: str) -> Iterator[str]:
    """Each column of `v_documents`, in order."""
    has_result = f"{_first_of([f'{letter}.position' for letter, _ in _TABLES.values()])} IS NOT NULL"
    for name in VIEW_ORDER:
        if name == "status":
            yield f"CASE WHEN {has_result} THEN 'ok' ELSE COALESCE(d.status, 'waiting') END AS status"
        elif name in RESULT_COLUMNS:
            found = [_value(_TABLES[kind.name][0], one, infinity) for kind, one in RESULT_COLUMNS[name].sources]
            yield f"{_first_of(found)} AS {name}"
        elif name in _OF_RESULT:
            yield f"{_first_of([f'{letter}.{name}' for letter, _ in _TABLES.values()])} AS {name}"
        else:
            yield f"{_OF_DOCUMENT[name]} AS {name}"


def _first_of(values: Sequence[str]) -> str:
    return values[0] if len(values) == 1 else f"COALESCE({', '.join(values)})"


def _value(letter: str, one: Field | Derived, infinity: str) -> str:
    """A field, or what follows from the sums of a result, as in `jobs.measures`. An exponential that no double can hold
    is infinite; PostgreSQL would refuse the whole query instead."""
    if isinstance(one, Field):
        return f"{letter}.{one.name}"
    total, count = f"{letter}.{one.total}", f"{letter}.{one.count}"
    if one.in_bits:
        return f"CASE WHEN {count} > 0 THEN {total} / ({count} * {LN_2!r}) END"
    mean = f"{total} / {count}"
    finite = f"CASE WHEN {mean} < {LARGEST_EXPONENT} THEN exp({mean}) ELSE {infinity} END"
    return f"CASE WHEN {count} > 0 THEN {finite} END"
