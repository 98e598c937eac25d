"""The tables whose rows outlive the jobs that they come from: the log of what people did to jobs, the results of
`kvjobs bench cache`, and the memories of what was translated or scored before, by all that decides its result."""

from datetime import datetime

from sqlalchemy import ForeignKey, Index
from sqlalchemy.orm import Mapped

from jobs.store.schema.declarative import Base, BigId, column


class JobAction(Base):
    """What somebody did to a job: paused, resumed, cancelled, retried it, or changed its priority. It is kept when the
    job is pruned."""

    __tablename__ = "job_actions"

    id: Mapped[int] = column("number of the row, in the order of writing", BigId, unit="id", primary_key=True)
    job_id: Mapped[int] = column("the job", unit="id")
    action: Mapped[str] = column("`pause`, `resume`, `cancel`, `retry`, `priority`, or `notify`: a webhook again")
    actor: Mapped[str] = column(
        "who: user and host of the command line, or the visitor of the dashboard: name of its token, and address"
    )
    detail: Mapped[str | None] = column("what was given with it, such as the reason or the new priority")
    asked_at: Mapped[datetime] = column("when it was asked for")
    outcome: Mapped[str | None] = column("what changed, or the error; null where the process died meanwhile")
    ended_at: Mapped[datetime | None] = column("when it had been done")

    __table_args__ = (Index(None, "job_id", "id"),)


class StoredCacheReport(Base):
    """A measurement of `kvjobs bench cache`: the same sequences decoded to one length with the KV cache and without it,
    on the CPU, in one thread. Durations are medians over the repeats. All measurements of one call have the same
    `measured_at`."""

    __tablename__ = "cache_reports"

    id: Mapped[int] = column("number of the report, in the order of writing", BigId, unit="id", primary_key=True)
    model: Mapped[str] = column("name of the model, or path of its folder")
    model_revision: Mapped[str] = column("sha256 over the model's files, as in `jobs`")
    files_stamp: Mapped[str] = column("sha256 over inodes, sizes and times of these files, as in `verifications`")
    kind: Mapped[str] = column("of the model: `translation` (segments were translated) or `causal` (prompts continued)")
    stages: Mapped[int | None] = column("that a split model was run in; null or 1: it was whole", unit="stages")
    host: Mapped[str] = column("name of the machine that measured")
    processor: Mapped[str] = column("its processor, and how many cores the process could use")
    num_sequences: Mapped[int] = column("segments or prompts", unit="sequences")
    source_tokens: Mapped[int] = column("length of each of them", unit="tokens")
    target_tokens: Mapped[int] = column(
        "generated for each of them; forced, so that both take as many steps", unit="tokens"
    )
    batch_size: Mapped[int] = column("sequences that one model call processes together", unit="sequences")
    num_beams: Mapped[int] = column("1 is greedy search", unit="beams")
    repeats: Mapped[int] = column("how often each was measured, in turns", unit="runs")
    cached_s: Mapped[float] = column("with the cache: from the first model call to the last id", unit="s")
    uncached_s: Mapped[float] = column("the same without the cache", unit="s")
    cached_step_s: Mapped[float] = column("with the cache: mean of the steps but the first", unit="s per step")
    uncached_step_s: Mapped[float] = column("the same without the cache", unit="s per step")
    cached_early_s: Mapped[float] = column(
        "with the cache: mean of steps 2 to 6; of fewer than 20 steps, of their first quarter", unit="s per step"
    )
    uncached_early_s: Mapped[float] = column("the same without the cache", unit="s per step")
    cached_late_s: Mapped[float] = column(
        "with the cache: mean of the last 5 steps, or of their last quarter", unit="s per step"
    )
    uncached_late_s: Mapped[float] = column("the same without the cache", unit="s per step")
    num_different: Mapped[int] = column(
        "whose tokens differ with and without the cache; 0: all are equal", unit="sequences"
    )
    kv_bytes: Mapped[int] = column("size of the buffers with the cache, those of a step included", unit="bytes")
    version: Mapped[str] = column("of kvjobs")
    measured_at: Mapped[datetime] = column("when the call ended")

    __table_args__ = (Index(None, "model", "id"),)


class CacheReportStep(Base):
    """A step of a measurement of `kvjobs bench cache`: what it took with the cache and without it."""

    __tablename__ = "cache_report_steps"

    report_id: Mapped[int] = column(
        "its report", ForeignKey("cache_reports.id", ondelete="CASCADE"), unit="id", primary_key=True
    )
    step: Mapped[int] = column("decoder step, from 0", unit="step number", primary_key=True)
    cached_s: Mapped[float] = column("of one batch, with the cache; median over the repeats", unit="s")
    uncached_s: Mapped[float] = column("the same without the cache", unit="s")

    __table_args__ = ({"sqlite_with_rowid": False},)


class MemoryEntry(Base):
    """The translation memory: segments that need not be translated again."""

    __tablename__ = "translation_memory"

    key: Mapped[bytes] = column("sha256 of the segment and of all that decides its result", primary_key=True)
    texts: Mapped[str] = column("translations, best first, a JSON list")
    scores: Mapped[str] = column("log-probability / length ** length_penalty of each, a JSON list")
    log_prob: Mapped[float] = column("of the best, summed over its tokens", unit="nats")
    num_source_tokens: Mapped[int] = column("of the segment", unit="tokens")
    num_target_tokens: Mapped[int] = column("of the best, end of sentence included", unit="tokens")
    flags: Mapped[str] = column("as in `translations`")
    sums: Mapped[str | None] = column(
        "where a whole beam is kept (`--max-chars`): [log-probability, tokens, truncated] of each, a JSON list; else "
        "null"
    )
    model: Mapped[str | None] = column("of the job that stored it; null: an older version did")
    learned_at: Mapped[datetime | None] = column("when it was stored; null: by an older version")

    __table_args__ = ({"sqlite_with_rowid": False},)


class ImportedUnit(Base):
    """Translations that people imported (`kvjobs memory import`): they come before those of any model."""

    __tablename__ = "imported_units"

    source_digest: Mapped[bytes] = column("sha256 of the source", primary_key=True)
    source_language: Mapped[str] = column("its code, as the file has it", primary_key=True)
    target_language: Mapped[str] = column("of the translation, as the file has it", primary_key=True)
    source: Mapped[str] = column("a sentence")
    target: Mapped[str] = column("its translation")
    file: Mapped[str] = column("the name of the file that it was imported from")
    imported_at: Mapped[datetime] = column("when it was imported last")

    __table_args__ = (Index(None, "imported_at"), {"sqlite_with_rowid": False})


class ScoreEntry(Base):
    """The memory of scores: documents that need not be scored again."""

    __tablename__ = "score_memory"

    key: Mapped[bytes] = column("sha256 of the document and of all that decides its result", primary_key=True)
    nll_sum: Mapped[float] = column("as in `scores`", unit="nats")
    num_tokens: Mapped[int] = column("as in `scores`", unit="tokens")
    num_words: Mapped[int] = column("as in `scores`", unit="words")
    num_bytes: Mapped[int] = column("as in `scores`", unit="bytes")
    num_source_tokens: Mapped[int] = column("as in `scores`", unit="tokens")
    flags: Mapped[str] = column("as in `scores`")
    token_scores: Mapped[str | None] = column("as in `scores`")

    __table_args__ = ({"sqlite_with_rowid": False},)
