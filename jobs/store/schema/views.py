"""The public views, which dashboards and people query. Their columns stay; new ones are added at the end.

Every upgrade drops the views and creates them again, so each is defined here and in no migration.
"""

from sqlalchemy import Connection, text

from jobs.measures import LARGEST_EXPONENT, LN_2

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
    "v_documents": """
        SELECT d.job_id, d.position, d.external_id AS id, d.line,
               CASE WHEN COALESCE(t.position, s.position, r.position, g.position, p.position) IS NOT NULL THEN 'ok'
                    ELSE COALESCE(d.status, 'waiting') END AS status,
               d.text, t.text AS translation, COALESCE(t.log_prob, g.log_prob) AS log_prob, t.num_segments,
               COALESCE(t.num_reused, s.num_reused) AS num_reused,
               COALESCE(t.num_source_tokens, s.num_source_tokens) AS num_source_tokens,
               t.num_target_tokens, COALESCE(t.flags, s.flags, r.flags, g.flags, p.flags) AS flags, d.fields,
               d.error_code, d.error, COALESCE(t.shard_id, s.shard_id, r.shard_id, g.shard_id, p.shard_id) AS shard_id,
               COALESCE(t.epoch, s.epoch, r.epoch, g.epoch, p.epoch) AS epoch,
               COALESCE(t.worker_id, s.worker_id, r.worker_id, g.worker_id, p.worker_id) AS worker_id,
               COALESCE(t.finished_at, s.finished_at, r.finished_at, g.finished_at, p.finished_at) AS finished_at,
               s.nll_sum, COALESCE(s.num_tokens, r.num_tokens) AS num_tokens, s.num_words, s.num_bytes,
               {perplexity} AS perplexity, {word_perplexity} AS word_perplexity,
               {byte_perplexity} AS byte_perplexity, {bits_per_byte} AS bits_per_byte,
               s.token_scores, r.candidates AS ranking, r.num_candidates, r.num_unscored, r.num_computed,
               COALESCE(r.num_shared, g.num_shared) AS num_shared,
               t.segments, COALESCE(t.provider, s.provider, r.provider, g.provider, p.provider) AS provider,
               g.text AS generation, g.finish, g.num_prompt_tokens, g.num_new_tokens,
               t.via, t.via_log_prob, t.via_source_tokens, t.via_target_tokens, t.via_segments,
               d.route, t.unknown_share
        FROM documents d
        LEFT JOIN translations t ON t.job_id = d.job_id AND t.position = d.position
        LEFT JOIN scores s ON s.job_id = d.job_id AND s.position = d.position
        LEFT JOIN rankings r ON r.job_id = d.job_id AND r.position = d.position
        LEFT JOIN generations g ON g.job_id = d.job_id AND g.position = d.position
        LEFT JOIN passes p ON p.job_id = d.job_id AND p.position = d.position""",
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
    differing = {"minute": MINUTE[dialect], **_measures(INFINITY[dialect])}
    return {name: definition.format(**differing) for name, definition in VIEWS.items()}


def _measures(infinity: str) -> dict[str, str]:
    """The measures that follow from the sums of a score, as in `jobs.measures`. An exponential that no double can hold
    is infinite; PostgreSQL would refuse the whole query instead."""

    def perplexity(count: str) -> str:
        mean = f"s.nll_sum / s.{count}"
        finite = f"CASE WHEN {mean} < {LARGEST_EXPONENT} THEN exp({mean}) ELSE {infinity} END"
        return f"CASE WHEN s.{count} > 0 THEN {finite} END"

    return {
        "perplexity": perplexity("num_tokens"),
        "word_perplexity": perplexity("num_words"),
        "byte_perplexity": perplexity("num_bytes"),
        "bits_per_byte": f"CASE WHEN s.num_bytes > 0 THEN s.nll_sum / (s.num_bytes * {LN_2!r}) END",
    }
