"""A job in the database without a corpus or a worker: rows as an ingest would have left them.

The tests of the store are one conformance suite: each runs on SQLite and on PostgreSQL.
"""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import func, insert, select

from jobs.outcome import Translation
from jobs.spec import JobSpec, Task, TranslateOptions
from jobs.store.database import Database
from jobs.store.schema import tables
from jobs.store.schema.clock import db_time
from jobs.store.schema.states import DocumentStatus, JobState, ShardState
from tests.postgresql import empty

SPEC = JobSpec(task=Task.TRANSLATE, model="tiny", model_revision="r1", options=TranslateOptions())


@pytest.fixture
def sqlite(tmp_path: Path, empty_database: Path) -> Iterator[Database]:
    shutil.copy(empty_database, tmp_path / "kvjobs.db")
    database = Database.open(f"sqlite:///{tmp_path / 'kvjobs.db'}")
    yield database
    database.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    """An empty database, of each kind in turn."""
    database = request.getfixturevalue(request.param)
    yield database
    if request.param == "postgresql":
        empty(database)


MakeJob = Callable[..., int]


@pytest.fixture
def make_job(database: Database) -> MakeJob:
    """A running job of `documents` documents of 10 estimated tokens each, in shards of `per_shard`."""
    return lambda *args, **kwargs: insert_job(database, *args, **kwargs)


def insert_job(
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
    return int(job_id)


def translated(text: str = "x") -> Translation:
    return Translation(text=text, log_prob=-1.0, num_segments=2, num_reused=1, num_source_tokens=5, num_target_tokens=4)
