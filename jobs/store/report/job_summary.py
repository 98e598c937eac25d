"""Each job with its progress, from counters alone: as quick with ten million documents as with ten."""

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from sqlalchemy import Boolean, ColumnElement, Connection, Select, Text, case, cast, column, func, or_, select, table

from jobs.choices import CANCELLING, PAUSED, SHOWN_OF_RUNNING
from jobs.errors import NotFoundError, SpecError, meant
from jobs.providers import ProviderOrder
from jobs.routing.routes import has_pivot
from jobs.store.report.document_counts import DocumentCounts
from jobs.store.schema.clock import UtcDateTime, db_time
from jobs.store.schema.current_sums import current
from jobs.store.schema.rollup_tables import FlagCounts
from jobs.store.schema.states import ENDED_STATES, JobState
from jobs.store.schema.tables import Job, JobCounts
from jobs.tasks.kind import Kind
from jobs.tasks.kinds import KINDS
from jobs.tolerance import MAX_REJECTED, Tolerance

LAST = "last"
LARGEST_ID = 2**63 - 1


@dataclass(frozen=True, slots=True)
class JobSummary:
    """One job at the moment of reading: the columns of `v_jobs` and some of the table `jobs`."""

    job_id: int
    name: str | None
    task: str
    model: str
    state: str
    paused: bool
    priority: int
    reason: str | None  # why the job failed or was paused
    source: str
    documents: int
    succeeded: int
    rejected: int
    failed: int
    quarantined: int
    cancelled: int
    waiting: int
    shards: int
    shards_open: int
    estimated_tokens: int
    estimated_done: int
    source_tokens: int
    target_tokens: int
    segments: int
    segments_reused: int
    documents_reused: int
    created_at: datetime
    ingested_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    model_revision: str
    options: str  # canonical JSON
    providers: str | None  # JSON; None: onnx alone
    queue: str  # that a worker must serve to process the job
    cancel_requested_at: datetime | None
    read_at: datetime  # by the database's clock
    skipped: int  # without a result in the stage before, or not kept by the filter
    chain: int | None  # number of the first job of its chain; None: it belongs to none
    stage: int | None  # its number in the chain, from 1
    paused_at: datetime | None  # since when it is paused
    idle_s: float  # for how long it was paused before, or had ended before a retry
    reads: int | None  # the stage whose result is its text; 0: the corpus
    corpus_documents: int | None  # of a chain: of its first job; a later stage gets its documents while that one runs
    reading: str | None  # how its corpus is read, JSON; None for a job of an older version
    is_open: bool  # documents may still be appended to it
    closed_at: datetime | None  # since when not; None while it is open, and for a job of a corpus
    owner: str | None  # who submitted it: name of a token, or user@host; None for a job of an older version
    flag_counts: str | None  # `flag documents`, joined by commas; None: no result has a flag

    @property
    def order(self) -> ProviderOrder:
        """The providers that may answer it."""
        return ProviderOrder.from_json(self.providers)

    @property
    def kind(self) -> Kind:
        """The declaration of the job's task."""
        return KINDS[self.task]

    @property
    def has_via(self) -> bool:
        """Whether its documents may go through two models, and have a text between them."""
        return has_pivot(json.loads(self.options))

    @property
    def label(self) -> str:
        """The job's number, with its name if it has one."""
        return f"{self.job_id} ({self.name})" if self.name else str(self.job_id)

    @property
    def recorded_state(self) -> str:
        """The state in the database, with `paused` and `cancelling`. (What is shown is `LiveJob.shown_state`.)"""
        if self.has_ended:
            return self.state
        if self.cancel_requested_at:
            return CANCELLING
        return PAUSED if self.paused else self.state

    @property
    def because(self) -> str:
        """` (reason)`, to be put behind the state. Empty for a job that is done: a pause in its last batch is over."""
        return f" ({self.reason})" if self.reason and self.state != JobState.DONE else ""

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED_STATES

    @property
    def awaits_documents(self) -> bool:
        """Whether it is open, and each of its documents has ended."""
        return self.is_open and not self.shards_open

    @property
    def was_opened(self) -> bool:
        """Whether documents are or were appended to it, so that it has no corpus."""
        return self.is_open or self.closed_at is not None

    @property
    def total_documents(self) -> int:
        """All documents, with those that the stage before will hand on."""
        return self.documents if self.has_ended else max(self.documents, self.corpus_documents or 0)

    @property
    def counts(self) -> DocumentCounts:
        """How many documents of the job have which outcome."""
        return DocumentCounts(
            documents=self.total_documents,
            ok=self.succeeded,
            failed=self.failed,
            quarantined=self.quarantined,
            rejected=self.rejected,
            cancelled=self.cancelled,
            skipped=self.skipped,
        )

    @property
    def flags(self) -> dict[str, int]:
        """How many documents have a result with each flag, the most telling flag first."""
        counted = dict(pair.split() for pair in (self.flag_counts or "").split(",") if pair)
        known = {flag.value: int(counted.pop(flag)) for flag in self.kind.flags if flag in counted}
        return known | {flag: int(number) for flag, number in sorted(counted.items())}

    @property
    def noun(self) -> str:
        """The word for a document of this task: `document` or `query`."""
        return self.kind.words.document

    @property
    def counts_in_words(self) -> str:
        """`480 of 1,000 documents ok, 8 failed, 512 waiting`: how every command and page says it."""
        return self.counts.sentence(self.noun)

    @property
    def unsuccessful(self) -> int:
        """Documents that are not ok."""
        return self.counts.not_ok

    @property
    def share_done(self) -> float:
        """The share of the documents that are done, of those that the job has to do: 0 .. 1."""
        counts = self.counts
        return counts.done / counts.to_do if counts.to_do else float(self.has_ended)

    @property
    def is_partly_ok(self) -> bool:
        """Whether it is done, and more of its documents are not ok than `--max-rejected` allows."""
        return self.state == JobState.DONE and self.exit_code != 0

    @property
    def estimated_left(self) -> int:
        """Tokens of the documents that wait, as estimated at submit; those that the stage before has not handed on yet
        are taken to be as long as the others."""
        whole = self.estimated_tokens * self.total_documents // max(1, self.documents)
        return max(0, whole - self.estimated_done)

    @property
    def elapsed_s(self) -> float | None:
        """Seconds from the first lease to the end of the job, or until now, without those in which it was paused; None
        before the first lease, and where the database's clock went back behind that: then nobody knows."""
        if self.started_at is None:
            return None
        end = (self.paused_at if self.paused else None) or self.finished_at or self.read_at
        if end < self.started_at:
            return None
        return max(0.0, (end - self.started_at).total_seconds() - self.idle_s)

    @property
    def tokens(self) -> int:
        """The tokens by which speed is measured: generated or scored ones; for reranking, whose scored suffixes are
        short, those that went through the model."""
        return int(getattr(self, self.kind.tokens))

    @property
    def tokens_per_s(self) -> float | None:
        """Average since the first lease. (`LiveJob`: over the last minute.) None for a job that was opened: it also
        waits for documents."""
        return self.tokens / self.elapsed_s if self.elapsed_s and not self.was_opened else None

    @property
    def eta_s(self) -> float | None:
        """Seconds that remain; None, because counters alone do not tell (`LiveJob` does)."""
        return None

    @property
    def max_rejected(self) -> str | None:
        """The value of `--max-rejected` in the last submit that gave it."""
        return None if self.reading is None else json.loads(self.reading).get(MAX_REJECTED)

    @property
    def exit_code(self) -> int | None:
        """Exit code of `kvjobs wait`: 0 all succeeded, but for rejected lines that `--max-rejected` allows, 3 some did
        not, 1 the ingest failed; None before the end."""
        return self.exit_code_with(None)

    def exit_code_with(self, tolerance: Tolerance | None) -> int | None:
        """The exit code. `tolerance`: in place of the one that was submitted."""
        if not self.has_ended:
            return None
        if self.state == JobState.FAILED:
            return 1
        if self.state != JobState.DONE or self.unsuccessful > self.rejected:
            return 3
        if tolerance is None and self.max_rejected is not None:
            tolerance = Tolerance.parse(self.max_rejected)
        return 0 if (tolerance or Tolerance(lines=0)).allows(self.rejected, self.documents) else 3

    def as_row(self) -> dict[str, Any]:
        """Every field and every derived property, for JSON and CSV."""
        row = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in UNSHOWN}
        row["options"], row["providers"] = json.loads(self.options), str(self.order)
        row |= {name: getattr(self.counts, name) for name in COUNTED}
        row["flags"] = self.flags
        return row | {name: getattr(self, name) for name in DERIVED}


DERIVED = (*("share_done", "unsuccessful", "elapsed_s", "tokens_per_s", "eta_s", "max_rejected", "exit_code"),)
COUNTED = ("done", "ok", "not_ok")  # properties of `JobSummary.counts`; the other counts are columns
UNSHOWN = ("reading", "flag_counts")  # in rows of JSON and CSV
SUMMARY_FIELDS = (
    *(field.name for field in fields(JobSummary) if field.name not in UNSHOWN),
    *COUNTED,
    *DERIVED,
)

FLAGS = current(FlagCounts)
# All other fields are columns of v_jobs. SQLite does not know the types of a view's columns.
_FROM_JOBS = {
    "model_revision": Job.model_revision,
    "options": Job.options,
    "providers": Job.providers,
    "queue": Job.queue,
    "cancel_requested_at": Job.cancel_requested_at,
    "read_at": db_time().label("read_at"),
    "reads": Job.reads,
    "reading": Job.reading,
    "flag_counts": select(func.aggregate_strings(FLAGS.flag.concat(" ").concat(cast(FLAGS.documents, Text)), ","))
    .where(FLAGS.job_id == Job.id)
    .scalar_subquery()
    .label("flag_counts"),
    "corpus_documents": select(JobCounts.documents)
    .where(JobCounts.job_id == Job.chain)
    .scalar_subquery()
    .label("corpus_documents"),
}
_TYPES = {"paused": Boolean(), "is_open": Boolean()} | {
    name: UtcDateTime() for name in ("created_at", "ingested_at", "started_at", "finished_at", "paused_at", "closed_at")
}
V_JOBS = table(
    "v_jobs",
    *(column(field.name, _TYPES.get(field.name)) for field in fields(JobSummary) if field.name not in _FROM_JOBS),
)


NAMES_COMPARED = 1000  # names of the newest jobs, among which a similar name is looked for


def find_job(connection: Connection, reference: str) -> JobSummary:
    """The job with this number or name, or the newest for "last". Raises NotFoundError."""
    statement = summaries()
    if reference == LAST:
        statement = statement.order_by(V_JOBS.c.job_id.desc()).limit(1)
    elif reference.isascii() and reference.isdecimal():
        if int(reference) > LARGEST_ID:
            raise _not_found(connection, reference)
        statement = statement.where(V_JOBS.c.job_id == int(reference))
    else:
        statement = statement.where(V_JOBS.c.name == reference)
    row = connection.execute(statement).one_or_none()
    if row is None:
        raise _not_found(connection, reference)
    return JobSummary(*row)


def state_of(connection: Connection, job_id: int) -> str | None:
    """The state of a job alone, for whoever looks many times a second; None: there is no such job."""
    return connection.execute(select(Job.state).where(Job.id == job_id)).scalar_one_or_none()


def find_chain(connection: Connection, job: JobSummary) -> list[JobSummary]:
    """The jobs of the chain that a job belongs to, in the order of stages; the job alone where it belongs to none."""
    if job.chain is None:
        return [job]
    found = connection.execute(summaries().where(V_JOBS.c.chain == job.chain).order_by(V_JOBS.c.stage))
    return [JobSummary(*row) for row in found]


def find_jobs(connection: Connection, job_ids: Collection[int]) -> list[JobSummary]:
    """The existing jobs among these numbers, newest first."""
    statement = summaries().where(V_JOBS.c.job_id.in_(job_ids)).order_by(V_JOBS.c.job_id.desc())
    return [JobSummary(*row) for row in connection.execute(statement)]


def list_jobs(
    connection: Connection,
    *,
    states: Collection[str] = (),
    task: str | None = None,
    limit: int | None = None,
    before: int | None = None,
) -> list[JobSummary]:
    """Jobs, newest first: with `states` only those whose `JobSummary.recorded_state` is among them, with `before` those
    whose number is lower."""
    statement = summaries().order_by(V_JOBS.c.job_id.desc()).limit(limit)
    if before is not None:
        statement = statement.where(V_JOBS.c.job_id < before)
    statement = statement.where(*conditions(states=states, task=task or "", search=""))
    return [JobSummary(*row) for row in connection.execute(statement)]


def conditions(*, states: Collection[str], task: str, search: str) -> Iterator[ColumnElement[bool]]:
    """What `list_jobs` asks of rows of `summaries`. A `waiting` or `awaiting` job is `running` here: `LiveJob` tells
    them apart."""
    if states:
        shown = case(
            (V_JOBS.c.state.in_(ENDED_STATES), V_JOBS.c.state),
            (Job.cancel_requested_at.is_not(None), CANCELLING),
            (V_JOBS.c.paused, PAUSED),
            else_=V_JOBS.c.state,
        )
        yield shown.in_({JobState.RUNNING if state in SHOWN_OF_RUNNING else state for state in states})
    if task:
        yield V_JOBS.c.task == task
    if search:
        found_in = (func.lower(V_JOBS.c[name]) for name in ("name", "model", "source"))
        yield or_(*(text.contains(search.lower(), autoescape=True) for text in found_in))


def require_ended(jobs: Sequence[JobSummary]) -> None:
    """Raise SpecError for the first job that has not ended."""
    for job in jobs:
        if job.has_ended:
            continue
        first = f"cancel it first: kvjobs cancel {job.job_id}"
        if job.cancel_requested_at:
            first = f"wait until workers have finished their batches of it: kvjobs wait {job.job_id}"
        raise SpecError(f"job {job.label} is {job.recorded_state}; {first}")


def summaries() -> Select[Any]:
    """Every job, with the columns of a `JobSummary`."""
    columns = [
        _FROM_JOBS[field.name] if field.name in _FROM_JOBS else V_JOBS.c[field.name] for field in fields(JobSummary)
    ]
    return select(*columns).join_from(V_JOBS, Job, Job.id == V_JOBS.c.job_id)


def _not_found(connection: Connection, reference: str) -> NotFoundError:
    if reference == LAST:
        return NotFoundError("there is no job yet; to submit a corpus: kvjobs submit CORPUS")
    names = select(Job.name).where(Job.name.is_not(None)).order_by(Job.id.desc()).limit(NAMES_COMPARED)
    near = meant(reference, [*filter(None, connection.execute(names).scalars()), LAST])
    return NotFoundError(f"there is no job {reference!r}{near}; to list all jobs: kvjobs ls --all")
