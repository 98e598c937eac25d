"""Insert jobs directly into the tables, without a corpus or a worker.

`insert_job` takes lines with their results, as workers would have left them. `insert_waiting_job` takes a number of
documents and of documents per shard, as an ingest would have left them.
"""

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from sqlalchemy import func, insert, inspect, select

from jobs.outcome import AlignedSegment, Flag, Ranking, Score, StepTiming, Translation, Via
from jobs.routing.routes import Leg, Route
from jobs.spec import JobSpec
from jobs.store.connection.dialect import add_to_rows
from jobs.store.database import Database
from jobs.store.queue.batches import Batch, PlannedDocument
from jobs.store.queue.job_providers import insert_providers
from jobs.store.rollups import FAILURES, BatchSums, add_failures
from jobs.store.schema import tables
from jobs.store.schema.clock import db_time
from jobs.store.schema.provider_tables import JobProvider
from jobs.store.schema.results import RESULTS, as_stored
from jobs.store.schema.states import DocumentStatus, JobState, ShardState
from jobs.store.schema.step_table import Step, timings_json
from jobs.store.worker_registry import register
from jobs.system.process import ProcessId
from jobs.tasks.kinds import Options
from jobs.tasks.task import Task
from jobs.tasks.translate import TranslateOptions

AddJob = Callable[..., int]  # insert_job without its first argument
AddWaitingJob = Callable[..., int]  # insert_waiting_job without its first argument

SPEC = JobSpec(
    task=Task.TRANSLATE, model="opus-mt-en-zh", model_revision="0123456789abcdef", options=TranslateOptions()
)
TOKENS = 10  # of each document, estimated and actual
ENDED = (JobState.DONE, JobState.CANCELLED, JobState.FAILED)


@dataclass(frozen=True)
class Line:
    """A document and its outcome. Without `translation`, `result` and `status` it waits."""

    id: str | None
    translation: str | None = None
    status: DocumentStatus | None = None
    text: str | None = "a text"
    numeric_id: bool = False
    fields: dict[str, Any] = field(default_factory=dict)
    error: tuple[str | None, str | None] = (None, None)  # code, message
    flags: str = ""
    alternatives: list[dict[str, Any]] | None = None
    alignments: list[dict[str, Any] | None] | None = None
    log_prob: float = -1.5
    epoch: int = 1
    route: str | None = None  # the language by which its models were chosen
    result: Score | Ranking | Translation | None = None  # of a score or rerank job, or of two models


def insert_job(
    database: Database,
    lines: Sequence[Line],
    *,
    state: JobState | None = None,
    name: str | None = None,
    source: str = "corpus.jsonl",
    options: Options = SPEC.options,
    task: Task = SPEC.task,
    finished_s_ago: float = 0.0,
    **columns: Any,
) -> int:
    """Insert a job of these lines in one shard, with consistent counters: running if a line waits, else done."""
    done = [line for line in lines if line.translation is not None or line.result is not None]
    waiting = [line for line in lines if line not in done and line.status is None]
    state = state or (JobState.RUNNING if waiting else JobState.DONE)
    readable = [line for line in lines if line.status != DocumentStatus.REJECTED]
    with database.writing() as connection:
        now = connection.execute(select(db_time())).scalar_one()
        rows: list[dict[str, Any]] = []
        job = {
            "name": name,
            "task": task,
            "model": SPEC.model,
            "model_revision": SPEC.model_revision,
            "options": replace(SPEC, options=options).options_json(),
            "options_digest": SPEC.digest(),
            "source": source,
            "corpus_digest": "",
            "state": state,
            "priority": 0,
            "paused": False,
            "ingested": len(lines),
            "created_at": db_time(-finished_s_ago - 100),
            "ingested_at": db_time(-finished_s_ago - 100),
            "started_at": db_time(-finished_s_ago - 100),
            "finished_at": db_time(-finished_s_ago) if state in ENDED else None,
        }
        number = connection.exec_driver_sql("SELECT COUNT(*) FROM jobs").scalar_one()
        made = insert(tables.Job).values(job | {"content_key": f"content {number}"} | columns)
        job_id = int(connection.execute(made.returning(tables.Job.id)).scalar_one())
        shard_state = ShardState.READY if waiting else ShardState.DONE
        shard_id = connection.execute(
            insert(tables.Shard)
            .values(
                job_id=job_id,
                start=0,
                stop=len(lines),
                estimated_tokens=TOKENS * len(readable),
                queue="cpu",
                state=shard_state,
                available_at=db_time(),
                lease_epoch=1,
                attempts=1,
                crashes=0,
            )
            .returning(tables.Shard.id)
        ).scalar_one()
        documents = [
            {
                "job_id": job_id,
                "position": position,
                "external_id": line.id,
                "numeric_id": line.numeric_id,
                "line": position + 1,
                "text": line.text,
                "fields": json.dumps(line.fields, ensure_ascii=False) if line.fields else None,
                "estimated_tokens": 0 if line.status == DocumentStatus.REJECTED else TOKENS,
                "status": line.status,
                "error_code": line.error[0],
                "error": line.error[1],
                "route": line.route,
            }
            for position, line in enumerate(lines)
        ]
        if documents:
            connection.execute(insert(tables.Document.__table__), documents)
        whose = {"job_id": job_id, "shard_id": shard_id, "worker_id": 1, "finished_at": now}
        for position, line in enumerate(lines):
            if line.translation is not None:
                rows.append(
                    {
                        "position": position,
                        "text": line.translation,
                        "log_prob": line.log_prob,
                        "num_segments": 1,
                        "num_reused": 0,
                        "num_source_tokens": TOKENS,
                        "num_target_tokens": TOKENS,
                        "flags": line.flags,
                        "alternatives": json.dumps(line.alternatives) if line.alternatives else None,
                        "alignments": json.dumps(line.alignments) if line.alignments else None,
                        "epoch": line.epoch,
                    }
                )
            if line.result is not None:
                stored = as_stored(line.result)
                assert isinstance(stored, dict)
                rows.append({**stored, "position": position, "epoch": 1})
        for _, alike in itertools.groupby(rows, key=lambda row: sorted(row)):  # one statement has the same columns
            connection.execute(insert(RESULTS[task].__table__), [row | whose for row in alike])
        failures = Counter((line.status, line.error[0]) for line in lines if line.status in FAILURES)
        ended = sum(number for (status, _), number in failures.items() if status != DocumentStatus.REJECTED)
        if rows or ended:
            sums = batch_sums(job_id, shard_id=shard_id, now=now, task=task, results=rows, failed=ended)
            add_to_rows(connection, *sums.additions())
        add_failures(connection, job_id, failures)
        connection.execute(
            insert(tables.JobCounts).values(
                job_id=job_id,
                documents=len(lines),
                succeeded=len(done),
                **{status.value: sum(line.status == status for line in lines) for status in DocumentStatus},
                shards=1,
                shards_open=int(bool(waiting)),
                estimated_tokens=TOKENS * len(readable),
                estimated_done=TOKENS * (len(readable) - len(waiting)),
                source_tokens=TOKENS * len(done),
                target_tokens=TOKENS * len(done),
                segments=len(done),
                segments_reused=0,
            )
        )
        listed = {"provider": "onnx", "model": SPEC.model, "documents": len(done), "failed": ended, "cost": 0.0}
        connection.execute(insert(tables.JobTurn).values(job_id=job_id))
        sums = dict.fromkeys(("handed_over", "requests", "prompt_tokens", "completion_tokens"), 0)
        connection.execute(insert(JobProvider).values(job_id=job_id, place=0, **listed, **sums))
    return job_id


def insert_waiting_job(
    database: Database,
    documents: int = 6,
    per_shard: int = 3,
    *,
    priority: int = 0,
    rejected: tuple[int, ...] = (),
    tokens: int = 10,
    queue: str = "cpu",
    model: str = SPEC.model,
    model_revision: str = SPEC.model_revision,
    spec: JobSpec = SPEC,
) -> int:
    """Insert a running job of `documents` documents of `tokens` estimated tokens each, in shards of `per_shard`."""
    with database.writing() as connection:
        number = connection.execute(select(func.count()).select_from(tables.Job)).scalar_one()
        job_id = connection.execute(
            insert(tables.Job)
            .values(
                task=spec.task,
                model=model,
                model_revision=model_revision,
                queue=queue,
                options=spec.options_json(),
                options_digest=spec.digest(),
                **({} if spec.providers.is_default else {"providers": spec.providers.to_json()}),
                content_key=f"key-{number}",
                source="corpus.jsonl",
                corpus_digest="d",
                state=JobState.RUNNING,
                priority=priority,
                paused=False,
                ingested=documents,
                created_at=db_time(),
                ingested_at=db_time(),
            )
            .returning(tables.Job.id)
        ).scalar_one()
        connection.execute(
            insert(tables.Document),
            [
                {
                    "job_id": job_id,
                    "position": position,
                    "external_id": f"d{position}",
                    "numeric_id": False,
                    "line": position + 1,
                    "text": f"text {position}",
                    "estimated_tokens": 0 if position in rejected else tokens,
                    "status": DocumentStatus.REJECTED if position in rejected else None,
                }
                for position in range(documents)
            ],
        )
        starts = range(0, documents, per_shard)
        for start in starts:
            connection.execute(
                insert(tables.Shard).values(
                    job_id=job_id,
                    start=start,
                    stop=min(start + per_shard, documents),
                    estimated_tokens=tokens * per_shard,
                    queue=queue,
                    state=ShardState.READY,
                    available_at=db_time(),
                    lease_epoch=0,
                    attempts=0,
                    crashes=0,
                )
            )
        connection.execute(
            insert(tables.JobCounts).values(
                job_id=job_id,
                documents=documents,
                succeeded=0,
                rejected=len(rejected),
                failed=0,
                quarantined=0,
                cancelled=0,
                shards=len(starts),
                shards_open=len(starts),
                estimated_tokens=tokens * (documents - len(rejected)),
                estimated_done=0,
                source_tokens=0,
                target_tokens=0,
                segments=0,
                segments_reused=0,
            )
        )
        add_failures(connection, job_id, {(DocumentStatus.REJECTED, None): len(rejected)} if rejected else {})
        there = inspect(connection)
        if there.has_table("job_providers"):  # a test of migrations begins with an older database
            insert_providers(connection, int(job_id), replace(spec, model=model))
        if there.has_table("job_turns"):
            connection.execute(insert(tables.JobTurn).values(job_id=job_id))
    return int(job_id)


def batch_sums(
    job_id: int,
    *,
    now: datetime,
    shard_id: int = 1,
    lane: int = 0,
    task: Task = Task.TRANSLATE,
    results: Sequence[dict[str, Any]] = (),
    failed: int = 0,
    timings: Sequence[StepTiming] = (),
) -> BatchSums:
    """A batch that worker 1 recorded under the first lease of a shard."""
    whose = {"job_id": job_id, "shard_id": shard_id, "epoch": 1, "worker_id": 1, "lane": lane}
    return BatchSums(lease=whose, ended_at=now, table=RESULTS[task], results=results, failed=failed, timings=timings)


def add_timings(
    database: Database, job_id: int, timings: Sequence[StepTiming], lane: int = 0, at: datetime | None = None
) -> None:
    """Add timings to a job, as a batch without documents that was recorded now, or `at` a time."""
    whose = {"job_id": job_id, "shard_id": 1, "epoch": 1, "worker_id": 1, "lane": lane}
    with database.writing() as connection:
        now = at or connection.execute(select(db_time())).scalar_one()
        if timings:
            connection.execute(insert(Step).values(**whose, timings=timings_json(timings), recorded_at=now))
        add_to_rows(connection, *batch_sums(job_id, now=now, lane=lane, timings=timings).additions())


def batch_of(texts: Iterable[str]) -> Batch:
    return tuple(PlannedDocument(position, text, TOKENS) for position, text in enumerate(texts))


def translated(text: str = "x", *flags: Flag) -> Translation:
    sums = {"log_prob": -1.0, "num_segments": 2, "num_reused": 1, "num_source_tokens": 5, "num_target_tokens": 4}
    return Translation(text=text, flags=tuple(sorted(flags)), **sums)  # type: ignore[arg-type]  # numbers


# Through English, with two models.
PIVOT = Route(
    legs=(
        Leg(model="opus-mt-fr-en", model_revision="1" * 64, source_language="fr"),
        Leg(model="opus-mt-en-de", model_revision="2" * 64, source_language="en"),
    ),
    via="en",
)
PIVOT_COLUMNS = {"model": PIVOT.models, "options": TranslateOptions(routes=(PIVOT,), source_language="fr")}


def pivoted(text: str, via: str, *segments: tuple[AlignedSegment, tuple[int, int]]) -> Translation:
    """The result of two models; each of `segments` in the source, in `text` and in `via`."""
    middle = Via(via, -2.0, num_target_tokens=7, num_source_tokens=6, segments=tuple(one for _, one in segments))
    return replace(translated(text), segments=tuple(one for one, _ in segments), via=middle)


def enter(database: Database, process: ProcessId) -> int:
    """Insert the row of a worker, as this process would have registered it; returns its id."""
    worker_id = register(database, device="cpu", provider="test", lanes=1)
    with database.writing() as connection:
        connection.execute(
            tables.Worker.__table__.update()
            .where(tables.Worker.id == worker_id)
            .values(machine=process.machine, pid=process.pid, process_started=process.started)
        )
    return worker_id


def dead_process() -> ProcessId:
    """The id of a process that has ended: its pid is in use by a process with another start time."""
    mine = ProcessId.current()
    return replace(mine, started=mine.started - 1)
