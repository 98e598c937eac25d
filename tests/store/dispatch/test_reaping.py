"""Who takes back which leases: those of a dead process any process of its machine, expired ones the role holder."""

import pytest
from sqlalchemy import select, update

from jobs.dispatch.reaper import reap
from jobs.errors import TransientError
from jobs.store import jobs
from jobs.store.database import Database
from jobs.store.queue import leases
from jobs.store.report.recount.consistency_check import find_contradictions
from jobs.store.schema import tables
from jobs.store.schema.clock import db_time
from jobs.store.singleton_roles import REAPER, acquire_role, release_role
from jobs.store.worker_registry import any_alive, register
from jobs.system.process import ProcessId
from tests.rows import AddJob, Line, dead_process, enter
from worker import supervisor
from worker.supervisor import ReaperThread


def test_expired_leases_are_left_to_the_holder_of_the_reaper_role(database: Database, add_job: AddJob) -> None:
    add_job(Line("a"))
    worker_id = enter(database, ProcessId("another boot", 1, 1.0))
    leases.lease(database, worker_id, 0, lease_s=-1)
    acquire_role(database, REAPER, "other", 60)

    assert reap(database, "this") == 0

    release_role(database, REAPER, "other")
    assert reap(database, "this") == 1
    assert reap(database, "this") == 0


def test_leases_of_a_dead_process_on_this_machine_are_freed_without_the_role(
    database: Database, add_job: AddJob
) -> None:
    add_job(Line("a"))
    leases.lease(database, enter(database, dead_process()), 0, lease_s=60)
    acquire_role(database, REAPER, "other", 60)

    assert reap(database, "this") == 1


def test_without_an_expired_lease_the_role_is_not_taken(database: Database, add_job: AddJob) -> None:
    add_job(Line("a"))
    leases.lease(database, register(database, device="cpu", provider="test", lanes=1), 0, lease_s=60)

    reap(database, "this")

    assert acquire_role(database, REAPER, "other", 60)


def test_the_reaper_finishes_an_interrupted_cancel(
    database: Database, add_job: AddJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = add_job(Line("a"), Line("b"))

    def dies(name: str) -> None:
        raise KeyboardInterrupt(name)

    monkeypatch.setattr(jobs, "failpoint", dies)
    with pytest.raises(KeyboardInterrupt, match="in-cancel"):
        jobs.cancel(database, job_id)

    assert reap(database) == 0  # no lease was taken back

    with database.reading() as connection:
        assert connection.execute(select(tables.Job.state)).scalar() == "cancelled"
        assert find_contradictions(connection, job_id) == []


def test_the_reaper_finishes_a_cancel_that_was_interrupted_after_its_last_shard(
    database: Database, add_job: AddJob
) -> None:
    """All shards were closed when the cancel died; a worker had closed the last one."""
    job_id = add_job(Line("a", "一"))
    with database.writing() as connection:
        connection.execute(update(tables.Job).values(state="running", finished_at=None, cancel_requested_at=db_time()))

    reap(database)

    with database.reading() as connection:
        assert connection.execute(select(tables.Job.state)).scalar() == "done"
        assert find_contradictions(connection, job_id) == []


def test_the_shards_of_a_child_are_free_as_soon_as_its_parent_sees_it_end(database: Database, add_job: AddJob) -> None:
    """Elsewhere, or with /proc hidden, dead processes cannot be seen; but a parent is told that its child ended."""
    add_job(Line("a"))
    worker_id = enter(database, ProcessId("another boot", 1, 1.0))
    leases.lease(database, worker_id, 0, lease_s=60)
    reaper = ReaperThread(database, lease_s=60)

    reaper.reap()
    assert reaper.num_freed == 0

    reaper.reap_soon(worker_id)
    reaper.reap()
    assert reaper.num_freed == 1
    assert not any_alive(database, 60)


def test_after_a_database_outage_live_workers_get_time_to_reconnect(
    database: Database, add_job: AddJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_job(Line("a"))
    worker_id = register(database, device="cpu", provider="test", lanes=1)
    leases.lease(database, worker_id, 0, lease_s=-1)
    now = [1000.0]
    monkeypatch.setattr(supervisor.time, "monotonic", lambda: now[0])
    reaper = ReaperThread(database, lease_s=60)

    def unavailable(*_: object, **__: object) -> int:
        raise TransientError("unavailable")

    with monkeypatch.context() as outage:
        outage.setattr(supervisor, "reap", unavailable)
        reaper.reap()
    now[0] += 600
    reaper.reap()
    assert reaper.num_freed == 0

    now[0] += supervisor.RECONNECT_S - 1
    reaper.reap()
    assert reaper.num_freed == 0

    now[0] += 1
    reaper.reap()
    assert reaper.num_freed == 1


def test_a_read_only_database_counts_as_unavailable(postgresql: Database) -> None:
    url = postgresql.engine.url.update_query_dict({"options": "-c default_transaction_read_only=on"})
    read_only = Database.connect(url.render_as_string(hide_password=False))

    with pytest.raises(TransientError, match="takes no writes"):
        reap(read_only, "this", silent_too=False)

    read_only.close()
