"""What is recorded during the search for a document that kills its process."""

from collections.abc import Callable

import pytest
from sqlalchemy import select

from jobs.answers import Answers
from jobs.outcome import Failed
from jobs.store.database import Database
from jobs.store.jobs import retry
from jobs.store.queue import deaths, leases
from jobs.store.queue.batches import Batch
from jobs.store.schema import tables
from tests.rows import SPEC, AddWaitingJob
from tests.scripted_sandboxes import Sandboxes, ScriptedSandbox, poison
from tests.store.worker.echo import Echo, keeper_of, scalar
from worker.drain import drain
from worker.providers.protocol import ProviderJob


@pytest.fixture
def suspect(database: Database, add_waiting_job: AddWaitingJob) -> int:
    """A job on whose only shard two processes have died."""
    job = add_waiting_job(documents=6, per_shard=6, tokens=1000)
    for _ in range(2):
        leases.lease(database, 1, 0, -1.0)
        deaths.expire(database)
    return job


def events(database: Database) -> list[tuple[str, int | None]]:
    event = tables.ShardEvent
    with database.reading() as connection:
        rows = connection.execute(select(event.event, event.documents).order_by(event.id)).all()
    return [(row.event, row.documents) for row in rows][4:]


def test_suspects_never_run_in_the_process_of_the_lane(database: Database, suspect: int) -> None:
    sandboxes, engine = poison(2), Echo()

    drain(database, engine, keeper_of(database), open_sandbox=sandboxes)  # type: ignore[arg-type]

    assert sandboxes.tried[0] == [0, 1, 2, 3]
    assert engine.batches == 1, "only the second batch, without suspects, runs in the lane"
    assert events(database) == [
        ("leased", None),
        ("died", 4),
        ("died", 1),
        ("died", 1),
        ("quarantined", 1),
        ("recorded", 4),
        ("recorded", 2),
        ("finished", None),
    ]
    with database.reading() as connection:
        row = connection.execute(select(tables.Document.__table__).where(tables.Document.position == 2)).one()
        counts = connection.execute(select(tables.JobCounts.__table__)).one()
    assert (row.status, row.error_code) == ("quarantined", "killed")
    assert (counts.succeeded, counts.quarantined, counts.failed) == (5, 1, 0)
    assert counts.estimated_done == counts.estimated_tokens


def test_a_quarantined_document_that_is_retried_runs_in_the_lane(database: Database, suspect: int) -> None:
    keeper = keeper_of(database)
    drain(database, Echo(), keeper, open_sandbox=poison(2))  # type: ignore[arg-type]

    assert retry(database, suspect) == 1
    engine = Echo()
    drain(database, engine, keeper, open_sandbox=poison(2))  # type: ignore[arg-type]

    assert engine.batches == 1
    assert scalar(database, tables.JobCounts.succeeded) == 6
    assert scalar(database, tables.JobCounts.quarantined) == 0
    assert scalar(database, tables.Job.state) == "done"


def test_a_model_that_always_kills_pauses_its_job_and_quarantines_nothing(database: Database, suspect: int) -> None:
    drain(database, Echo(), keeper_of(database), open_sandbox=poison(*range(6)))  # type: ignore[arg-type]

    assert scalar(database, tables.Job.paused)
    assert "not the documents" in scalar(database, tables.Job.reason)
    assert scalar(database, tables.JobCounts.quarantined) == 0
    assert scalar(database, tables.Shard.state) == "ready"


def test_after_too_many_deaths_the_shard_is_released(
    database: Database, suspect: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobs.store.queue.deaths.MAX_DEATHS", 2)
    drain(database, Echo(), keeper_of(database), open_sandbox=poison(2))  # type: ignore[arg-type]

    assert events(database) == [("leased", None), ("died", 4), ("died", 1), ("released", None)], "1 + 2 deaths"
    assert scalar(database, tables.Job.paused)
    assert scalar(database, tables.Shard.state) == "ready"


def test_an_engine_that_fails_in_the_sandbox_fails_its_documents(database: Database, suspect: int) -> None:
    class Fails(Sandboxes):
        def process(self, batch: Batch) -> Answers:
            return Answers([Failed("engine-error", "x") for _ in batch])

    drain(database, Echo(), keeper_of(database), open_sandbox=Fails(lambda *_: None))  # type: ignore[arg-type]

    assert scalar(database, tables.JobCounts.failed) == 4
    assert scalar(database, tables.JobCounts.quarantined) == 0


def test_the_sandbox_gets_the_spec_of_the_job(database: Database, suspect: int) -> None:
    seen: list[ProviderJob] = []
    sandboxes = poison()

    def open_sandbox(
        job: ProviderJob, deadline_s: Callable[[], float], must_stop: Callable[[], bool]
    ) -> ScriptedSandbox:
        seen.append(job)
        assert deadline_s() > 0
        assert not must_stop()
        return sandboxes()

    drain(database, Echo(), keeper_of(database), open_sandbox=open_sandbox)  # type: ignore[arg-type]

    assert [job.model for job in seen] == [SPEC.model]
