"""Jobs in a database as workers would have left them, and `kvjobs` called in this process."""

import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert

from jobs.outcome import Ranking, Score
from jobs.spec import JobSpec, Options, Task, TranslateOptions
from jobs.store.database import Database
from jobs.store.schema import tables
from jobs.store.schema.clock import db_time
from jobs.store.schema.results import RESULTS, as_stored
from jobs.store.schema.states import DocumentStatus, JobState, ShardState
from tests.postgresql import empty, migrated, own_database


@dataclass(frozen=True)
class Line:
    """A document and what became of it. Without `translation` and `status` it waits."""

    id: str | None
    translation: str | None = None
    status: DocumentStatus | None = None
    text: str | None = "a text"
    numeric_id: bool = False
    fields: dict[str, Any] = field(default_factory=dict)
    error: tuple[str | None, str | None] = (None, None)  # code, message
    flags: str = ""
    alternatives: list[dict[str, Any]] | None = None
    log_prob: float = -1.5
    epoch: int = 1
    result: Score | Ranking | None = None  # of another task


@dataclass(frozen=True)
class Result:
    """What a call of `kvjobs` left."""

    exit_code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


# For what only one of the databases has: a file, pragmas, a lock for all.
ON_SQLITE = pytest.mark.parametrize("database", ["sqlite"], indirect=True)
# For what a server has: roles, functions that write, time limits of its own.
ON_POSTGRESQL = pytest.mark.parametrize("database", ["postgresql"], indirect=True)

AddJob = Callable[..., int]
Kvjobs = Callable[..., Result]

SPEC = JobSpec(
    task=Task.TRANSLATE, model="opus-mt-en-zh", model_revision="0123456789abcdef", options=TranslateOptions()
)
TOKENS = 10  # estimated and real, of each document
ENDED = (JobState.DONE, JobState.CANCELLED, JobState.FAILED)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder of the test's own; no setting of the machine's reaches it."""
    home = tmp_path / "home"
    home.mkdir()
    for name in os.environ:
        if name.startswith("KVJOBS_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("KVJOBS_HOME", str(home))
    monkeypatch.chdir(tmp_path)
    return home


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with our tables, made once: the migrations take longer than most tests."""
    path = tmp_path_factory.mktemp("empty") / "kvjobs.db"
    database = Database.open(f"sqlite:///{path}")
    with database.engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()
    return path


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Database]:
    """Our tables on the PostgreSQL server, made once."""
    with own_database() as url:
        database = Database.open(migrated(url))
        yield database
        database.close()


@pytest.fixture
def sqlite(home: Path, empty_database: Path) -> Iterator[Database]:
    """The file that the command line uses unless told otherwise, empty."""
    shutil.copy(empty_database, home / "kvjobs.db")
    database = Database.open(f"sqlite:///{home / 'kvjobs.db'}")
    yield database
    database.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    """The database that the command line uses, empty; of each kind in turn."""
    database = request.getfixturevalue(request.param)
    if request.param == "postgresql":
        monkeypatch.setenv("KVJOBS_DATABASE", database.engine.url.render_as_string(hide_password=False))
    yield database
    if request.param == "postgresql":
        empty(database)


@pytest.fixture
def kvjobs(home: Path, capsys: pytest.CaptureFixture[str]) -> Kvjobs:
    """Run the command line in this process."""
    from jobs.cli.main import run

    def call(*arguments: object) -> Result:
        capsys.readouterr()
        exit_code = run([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return Result(exit_code, out, err)

    return call


@pytest.fixture
def add_job(database: Database) -> AddJob:
    """Add a job of these lines: running if one of them waits, else done. In one shard, with counters that agree."""
    return lambda *lines, **kwargs: insert_job(database, lines, **kwargs)


@pytest.fixture
def finished_job(add_job: AddJob) -> int:
    """Three documents, all translated."""
    return add_job(*(Line(f"d{number}", f"译文{number}") for number in range(3)), name="nightly")


@pytest.fixture
def mixed_job(add_job: AddJob) -> int:
    """Done, with a document in every terminal state."""
    return add_job(
        Line("good", "好"),
        Line("bad", status=DocumentStatus.FAILED, error=("engine-error", "it broke")),
        Line(None, status=DocumentStatus.REJECTED, text=None, error=("bad-json", "line 3 is not JSON")),
        Line("poison", status=DocumentStatus.QUARANTINED, error=("killed", "two workers died")),
        Line("late", status=DocumentStatus.CANCELLED),
        name="mixed",
    )


@pytest.fixture
def running_job(add_job: AddJob) -> int:
    """Two documents translated, one failed, one waiting."""
    failed = Line("c", status=DocumentStatus.FAILED, error=("engine-error", "it broke"))
    return add_job(Line("a", "甲"), Line("b", "乙"), failed, Line("d"), name="running")


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
    done = [line for line in lines if line.translation is not None or line.result is not None]
    waiting = [line for line in lines if line not in done and line.status is None]
    state = state or (JobState.RUNNING if waiting else JobState.DONE)
    readable = [line for line in lines if line.status != DocumentStatus.REJECTED]
    with database.writing() as connection:
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
        for position, line in enumerate(lines):
            connection.execute(
                insert(tables.Document).values(
                    job_id=job_id,
                    position=position,
                    external_id=line.id,
                    numeric_id=line.numeric_id,
                    line=position + 1,
                    text=line.text,
                    fields=json.dumps(line.fields, ensure_ascii=False) if line.fields else None,
                    estimated_tokens=0 if line.status == DocumentStatus.REJECTED else TOKENS,
                    status=line.status,
                    error_code=line.error[0],
                    error=line.error[1],
                )
            )
            if line.translation is not None:
                connection.execute(
                    insert(tables.Translation).values(
                        job_id=job_id,
                        position=position,
                        text=line.translation,
                        log_prob=line.log_prob,
                        num_segments=1,
                        num_reused=0,
                        num_source_tokens=TOKENS,
                        num_target_tokens=TOKENS,
                        flags=line.flags,
                        alternatives=json.dumps(line.alternatives) if line.alternatives else None,
                        shard_id=shard_id,
                        epoch=line.epoch,
                        worker_id=1,
                        finished_at=db_time(),
                    )
                )
            if line.result is not None:
                whose = {"job_id": job_id, "position": position, "shard_id": shard_id, "epoch": 1, "worker_id": 1}
                stored = as_stored(line.result)
                assert isinstance(stored, dict)
                connection.execute(insert(RESULTS[task]).values(**stored, **whose, finished_at=db_time()))
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
    return job_id
