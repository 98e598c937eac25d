"""Who answered the documents of a job, and why others did not: from counters alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, func, select

from jobs.providers import UNANSWERED
from jobs.store.report.job_summary import JobSummary
from jobs.store.schema.current_sums import current
from jobs.store.schema.provider_tables import HandoverCounts, JobProvider, ProviderChange
from jobs.store.schema.rollup_tables import FailureCounts

CHANGES_SHOWN = 5


@dataclass(frozen=True, slots=True)
class HandoverReason:
    """Why a provider did not answer documents."""

    code: str
    documents: int
    reason: str  # a sentence: the reason for the first of these documents


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderSummary:
    provider: str
    model: str  # its name there
    skipped: str | None  # why it cannot do the job at all
    documents: int  # with a result of it
    failed: int  # that it found bad
    handed_over: int  # that it did not answer
    requests: int
    prompt_tokens: int
    completion_tokens: int
    cost: float
    handovers: Sequence[HandoverReason]  # most documents first


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderMoment:
    """A provider failed a lane, or answered it again."""

    at: datetime
    provider: str
    next_provider: str | None  # that was asked instead; None: none was left, or none is needed
    code: str
    reason: str
    documents: int
    worker_id: int
    lane: int


@dataclass(frozen=True, slots=True)
class JobProviders:
    """The providers of a job in the order in which they are asked."""

    providers: Sequence[ProviderSummary]
    changes: Sequence[ProviderMoment]  # the last ones, oldest first
    num_changes: int
    unanswered: int  # documents that no provider answered: failed ones, and queries that kept their order

    @property
    def answering(self) -> Sequence[ProviderSummary]:
        """The providers that have given a result."""
        return [provider for provider in self.providers if provider.documents]


def providers_of(connection: Connection, job: JobSummary, num_changes: int = CHANGES_SHOWN) -> JobProviders:
    """The providers of a job, and its last changes."""
    handovers: dict[str, list[HandoverReason]] = {}
    reason = current(HandoverCounts)
    reasons = select(reason.provider, reason.code, reason.documents, reason.reason).where(reason.job_id == job.job_id)
    for row in connection.execute(reasons.order_by(reason.documents.desc(), reason.code)):
        handovers.setdefault(row.provider, []).append(HandoverReason(row.code, row.documents, row.reason))
    provider = current(JobProvider)
    columns = (getattr(provider, name) for name in JobProvider.__table__.columns.keys())  # noqa: SIM118
    listed = select(*columns).where(provider.job_id == job.job_id).order_by(provider.place)
    found = [
        ProviderSummary(
            **{name: value for name, value in row.items() if name not in ("job_id", "place")},
            handovers=handovers.get(row["provider"], []),
        )
        for row in connection.execute(listed).mappings()
    ]
    of_job = ProviderChange.job_id == job.job_id
    return JobProviders(
        found,
        _changes(connection, job, num_changes),
        connection.execute(select(func.count()).select_from(ProviderChange).where(of_job)).scalar_one(),
        _unanswered(connection, job, found),
    )


def _changes(connection: Connection, job: JobSummary, limit: int) -> list[ProviderMoment]:
    change = ProviderChange
    columns = (change.at, change.provider, change.next_provider, change.code, change.reason, change.documents)
    newest = select(*columns, change.worker_id, change.lane).where(change.job_id == job.job_id)
    rows = connection.execute(newest.order_by(change.id.desc()).limit(limit)).mappings().all()
    return [ProviderMoment(**row) for row in reversed(rows)]


def _unanswered(connection: Connection, job: JobSummary, found: Sequence[ProviderSummary]) -> int:
    count = current(FailureCounts)
    failed = select(func.coalesce(func.sum(count.documents), 0)).where(
        count.job_id == job.job_id, count.error_code == UNANSWERED
    )
    kept_order = job.succeeded - sum(provider.documents for provider in found)
    return max(0, kept_order) + int(connection.execute(failed).scalar_one())
