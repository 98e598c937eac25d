"""Summaries as reports return them, for tests that need no database."""

from datetime import UTC, datetime, timedelta

from jobs.store.report.job_summary import JobSummary
from jobs.store.report.live_job import LiveJob

READ_AT = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)
RUNNING_JOB = JobSummary(
    job_id=9,
    name=None,
    task="translate",
    model="demo-en-zh",
    state="running",
    paused=False,
    priority=0,
    reason=None,
    source="/data/corpus.jsonl",
    documents=1000,
    succeeded=480,
    rejected=10,
    failed=8,
    quarantined=2,
    cancelled=0,
    waiting=500,
    shards=10,
    shards_open=5,
    estimated_tokens=100_000,
    estimated_done=50_000,
    source_tokens=40_000,
    target_tokens=60_000,
    segments=3000,
    segments_reused=300,
    documents_reused=0,
    created_at=READ_AT - timedelta(seconds=120),
    ingested_at=READ_AT - timedelta(seconds=110),
    started_at=READ_AT - timedelta(seconds=100),
    finished_at=None,
    model_revision="0123456789abcdef",
    options='{"batch_size":32,"beam_size":null,"cache":"auto","timing":"steps"}',
    providers=None,
    queue="cpu",
    cancel_requested_at=None,
    read_at=READ_AT,
    skipped=0,
    chain=None,
    stage=None,
    paused_at=None,
    idle_s=0.0,
    owner=None,
    flag_counts="truncated 3,number-changed 12",
    reads=None,
    corpus_documents=None,
    reading=None,
    is_open=False,
    closed_at=None,
)

# The same job, with a worker and the speed of its last minute.
LIVE_JOB = LiveJob(
    **{name: getattr(RUNNING_JOB, name) for name in JobSummary.__dataclass_fields__},
    has_worker=True,
    recent_tokens_per_s=600.0,
    pace=600.0,
)
