"""The rollups of a job: what a recorded batch and the end of documents add to them.

Every function with a connection runs inside a transaction that has locked the job's row in `job_counts`.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, delete

from jobs.buckets import BucketMeasure, bucket_of, bucket_of_mean
from jobs.outcome import DECODER_PHASES, MODEL_PHASES, STAGE, StepTiming
from jobs.store.connection.dialect import Addition, Rows, add_to_rows
from jobs.store.schema.provider_tables import HandoverCounts, JobProvider
from jobs.store.schema.results import SUMMED, ResultTable
from jobs.store.schema.rollup_tables import (
    LENGTHS_PER_ROW,
    FailureCounts,
    FlagCounts,
    MeasureCounts,
    MinuteSums,
    PastLengthSums,
    PhaseSums,
    RecordedBatch,
    StepSums,
)
from jobs.store.schema.states import DocumentStatus

Failures = Mapping[tuple[DocumentStatus, str | None], int]  # how many documents, by status and code
# Cancelled documents have no reason to count.
FAILURES = (DocumentStatus.REJECTED, DocumentStatus.FAILED, DocumentStatus.QUARANTINED)


Row = dict[str, Any]
OF_MINUTES = ("documents", "failed", "source_tokens", "target_tokens", "busy_s", "model_s")  # of a batch, summed up


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSums:
    """A batch as the current transaction has recorded it."""

    lease: Mapping[str, int]  # job_id, shard_id, epoch, worker_id, lane
    ended_at: datetime  # by the database's clock
    table: ResultTable
    results: Sequence[Mapping[str, Any]]  # rows of `table` that the transaction really inserted
    failed: int  # documents that failed or were quarantined
    timings: Sequence[StepTiming]

    @property
    def job(self) -> Mapping[str, int]:
        """The column that says which job a row of sums belongs to."""
        return {"job_id": self.lease["job_id"]}

    def additions(self, providers: Rows = (), handovers: Rows = ()) -> tuple[Addition, ...]:
        """What the batch adds to every rollup except `failure_counts`, with these rows of the job's providers; and its
        row of `batches`."""
        batch = self.batch()
        return (
            (PhaseSums, self.phases()),
            (StepSums, self.steps()),
            (PastLengthSums, self.past_lengths()),
            (MinuteSums, minutes_of(batch)),
            (MeasureCounts, self.measures()),
            (FlagCounts, self.flags()),
            (RecordedBatch, [batch]),
            (JobProvider, providers),
            (HandoverCounts, handovers),
        )

    def phases(self) -> list[Row]:
        """Rows of `phase_sums`. (The rows of every rollup are sorted by their key.)"""
        groups = _grouped((timing.phase, timing) for timing in self.timings)
        return [{**self.job, "phase": phase, **_sums(some)} for phase, some in groups]

    def steps(self) -> list[Row]:
        """Rows of `step_sums`."""
        groups = _grouped(
            ((timing.phase, timing.step), timing) for timing in self.timings if timing.phase in DECODER_PHASES
        )
        return [{**self.job, "phase": phase, "step": step, **_sums(some)} for (phase, step), some in groups]

    def past_lengths(self) -> list[Row]:
        """Rows of `past_length_sums`. A timing of several calls has the sum of their lengths, and is left out."""
        decoding = (timing for timing in self.timings if timing.phase == "decode" and timing.calls == 1)
        rows = []
        for length, some in _grouped(
            (timing.past_length // LENGTHS_PER_ROW * LENGTHS_PER_ROW, timing) for timing in decoding
        ):
            sums = _sums(some)
            del sums["tokens"]
            rows.append({**self.job, "past_length": length, **sums})
        return rows

    def measures(self) -> list[Row]:
        """Rows of `measure_counts`."""
        counted = Counter(measured for row in self.results for measured in measures_of(self.table, row))
        return [
            {**self.job, "measure": measure, "bucket": bucket, "documents": number}
            for (measure, bucket), number in sorted(counted.items())
        ]

    def flags(self) -> list[Row]:
        """Rows of `flag_counts`."""
        counted = Counter(flag for row in self.results for flag in row["flags"].split())
        return [{**self.job, "flag": flag, "documents": number} for flag, number in sorted(counted.items())]

    def batch(self) -> Row:
        """The row of `batches`."""
        summed = SUMMED[self.table]
        tokens = {name: summed[name].key if name in summed else None for name in ("source_tokens", "target_tokens")}
        timed = _sums(timing for timing in self.timings if not timing.phase.startswith(STAGE))
        busy_s = timed.pop("seconds")
        return {
            **self.lease,
            "ended_at": self.ended_at,
            "documents": len(self.results),
            "failed": self.failed,
            **{name: sum(row[column] for row in self.results) if column else 0 for name, column in tokens.items()},
            **timed,
            "busy_s": busy_s,
            "model_s": math.fsum(timing.seconds for timing in self.timings if timing.phase in MODEL_PHASES),
        }


def add_failures(connection: Connection, job_id: int, numbers: Failures) -> None:
    """Add documents that were rejected, failed or were quarantined."""
    add_to_rows(connection, failures_addition(job_id, numbers))


def failures_addition(job_id: int, numbers: Failures) -> Addition:
    """The amounts that documents without a result add to `failure_counts`."""
    rows = [
        {"job_id": job_id, "status": status, "error_code": code or "", "documents": number}
        for (status, code), number in sorted(numbers.items(), key=lambda item: (item[0][0], item[0][1] or ""))
    ]
    return FailureCounts, rows


def forget_failures(connection: Connection, job_id: int, *statuses: DocumentStatus) -> None:
    """Count no document with one of these statuses any more: all of them wait again, or are deleted."""
    rows = delete(FailureCounts).where(FailureCounts.job_id == job_id, FailureCounts.status.in_(statuses))
    connection.execute(rows)


def minutes_of(batch: Row) -> list[Row]:
    """The row of `minute_sums` that a row of `batches` adds to; none where no document ended and nothing was timed."""
    if not any(batch[name] for name in ("documents", "failed", "calls")):
        return []
    minute = batch["ended_at"].replace(second=0, microsecond=0)
    return [{"job_id": batch["job_id"], "minute": minute, **{name: batch[name] for name in OF_MINUTES}}]


def measures_of(table: ResultTable, row: Mapping[str, Any]) -> Iterator[tuple[BucketMeasure, int]]:
    """The measures of a result, each with its bucket; none of a task without perplexities."""
    mean, length = table.kind.mean, table.kind.length
    if mean is None or length is None:
        return
    total, count = row[mean.total], row[mean.count]
    if count and total is not None:
        yield BucketMeasure.PERPLEXITY, bucket_of_mean(total if mean.is_cost else -total, count)
    if row[length]:
        yield BucketMeasure.LENGTH, bucket_of(BucketMeasure.LENGTH, row[length])


def _grouped(keyed: Iterable[tuple[Any, StepTiming]]) -> list[tuple[Any, list[StepTiming]]]:
    groups: dict[Any, list[StepTiming]] = {}
    for key, timing in keyed:
        groups.setdefault(key, []).append(timing)
    return sorted(groups.items())


def _sums(timings: Iterable[StepTiming]) -> Row:
    calls = rows = tokens = 0
    seconds = 0.0
    for timing in timings:
        calls += timing.calls
        rows += timing.rows
        tokens += timing.tokens
        seconds += timing.seconds
    return {"calls": calls, "rows": rows, "tokens": tokens, "seconds": seconds}
