"""A measurement of `kvjobs bench cache`, as it is stored."""

from jobs.store.model_reports import CacheReportRow

# Three steps; with the cache each takes as long as the others, without it each takes longer than the one before.
MEASURED = CacheReportRow(
    model="demo-en-zh",
    model_revision="rev-1",
    files_stamp="stamp-1",
    kind="translation",
    stages=None,
    host="here",
    processor="a processor, 2 cores",
    num_sequences=4,
    source_tokens=8,
    target_tokens=3,
    batch_size=2,
    num_beams=1,
    repeats=3,
    cached_s=0.5,
    uncached_s=2.0,
    cached_step_s=0.1,
    uncached_step_s=0.5,
    cached_early_s=0.1,
    uncached_early_s=0.4,
    cached_late_s=0.11,
    uncached_late_s=0.6,
    num_different=0,
    kv_bytes=2048,
    version="0.2.0",
    steps=((0.1, 0.2), (0.1, 0.4), (0.11, 0.6)),
)
