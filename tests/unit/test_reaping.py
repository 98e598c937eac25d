"""Who takes back what: a dead process is seen on its own machine, a silent one by the holder of the post."""

from jobs.dispatch.reaper import reap
from jobs.process import ProcessId
from jobs.store import leases
from jobs.store.database import Database
from jobs.store.posts import REAPER, hold, leave
from jobs.store.workers import register
from tests.unit.conftest import AddJob, Line
from tests.unit.store.test_reaper import ended_process, enter


def test_leases_that_ran_out_are_left_to_the_holder_of_the_post(database: Database, add_job: AddJob) -> None:
    add_job(Line("a"))
    worker_id = enter(database, ProcessId("another boot", 1, 1.0))
    leases.lease(database, worker_id, 0, lease_s=-1)
    hold(database, REAPER, "theirs", 60)

    assert reap(database, "ours") == 0

    leave(database, REAPER, "theirs")
    assert reap(database, "ours") == 1
    assert reap(database, "ours") == 0


def test_a_dead_process_of_this_machine_needs_no_post(database: Database, add_job: AddJob) -> None:
    add_job(Line("a"))
    leases.lease(database, enter(database, ended_process()), 0, lease_s=60)
    hold(database, REAPER, "theirs", 60)

    assert reap(database, "ours") == 1


def test_where_nothing_has_run_out_nobody_takes_the_post(database: Database, add_job: AddJob) -> None:
    add_job(Line("a"))
    leases.lease(database, register(database, device="cpu", provider="test", lanes=1), 0, lease_s=60)

    reap(database, "ours")

    assert hold(database, REAPER, "theirs", 60)
