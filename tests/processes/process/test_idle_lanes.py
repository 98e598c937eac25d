"""The lanes of a worker that wait for work: what they ask of the database, counted in statements."""

import threading
from collections.abc import Iterator

import pytest
from sqlalchemy import event

from jobs.dispatch.worker_arguments import WorkerArguments
from jobs.queues import Queues
from jobs.settings import read_settings
from jobs.store.database import Database
from jobs.store.schema.states import WorkerRequest
from jobs.store.worker_registry import WorkerStats, ask, register
from tests.databases import ON_BOTH
from tests.machine import PATIENCE_S, until
from tests.rows import AddWaitingJob
from tests.store.worker.echo import Echo
from worker.child_process import _run_lane
from worker.process.lease_keeper import LeaseKeeper
from worker.process.wakeup import Wakeup

LANES = 4
pytestmark = ON_BOTH


class IdleLanes:
    """Lanes that look for work once in ten minutes, and hold what they find until `go_on`."""

    def __init__(self, database: Database) -> None:
        settings, _ = read_settings({"poll_s": 600.0})
        self.idle: list[int] = []  # the wake-ups at each report that all lanes wait
        self.asked: list[str] = []  # statements that ask for shards
        self.go_on = threading.Event()
        self.wakeup = Wakeup(LANES, self.idle.append)
        self.worker_id = register(database, device="cpu", provider="CPUExecutionProvider", lanes=LANES)
        self.keeper = LeaseKeeper(database, self.worker_id, lease_s=60.0, heartbeat_s=60.0, wakeup=self.wakeup)
        self.failures: list[str] = []
        self._held = threading.Semaphore(0)
        event.listen(database.engine, "before_cursor_execute", self._note)
        arguments = WorkerArguments(settings)
        self.threads = [
            threading.Thread(
                target=_run_lane,
                args=(database, self._lane(number), self.keeper, arguments, Queues(), self.failures),
                daemon=True,
            )
            for number in range(LANES)
        ]
        for thread in self.threads:
            thread.start()
        until(lambda: self.idle)
        self.asked.clear()

    def holds(self, shards: int) -> bool:
        """Whether so many lanes compute at once, before long."""
        return all(self._held.acquire(timeout=PATIENCE_S) for _ in range(shards))

    def end(self) -> None:
        self.go_on.set()
        self.keeper.stop()
        for thread in self.threads:
            thread.join(PATIENCE_S)
        assert self.failures == []

    def _lane(self, number: int) -> Echo:
        lane = Echo(before=lambda *_: self._hold())
        lane.number = number
        return lane

    def _hold(self) -> None:
        self._held.release()
        assert self.go_on.wait(PATIENCE_S)

    def _note(self, _connection: object, _cursor: object, statement: str, *_rest: object) -> None:
        if "shards" in statement:
            self.asked.append(statement)


@pytest.fixture
def lanes(database: Database) -> Iterator[IdleLanes]:
    lanes = IdleLanes(database)
    yield lanes
    lanes.end()


def test_a_wake_up_without_work_asks_the_database_once(lanes: IdleLanes) -> None:
    lanes.wakeup.wake()

    until(lambda: lanes.idle == [0, 1])
    assert len(lanes.asked) == 1


def test_a_wake_up_lets_as_many_lanes_work_as_there_are_shards(
    lanes: IdleLanes, add_waiting_job: AddWaitingJob
) -> None:
    add_waiting_job(documents=3, per_shard=1)

    lanes.wakeup.wake()

    assert lanes.holds(3)


def test_lanes_that_wait_end_when_a_person_asks_the_worker_to_drain(database: Database, lanes: IdleLanes) -> None:
    ask(database, lanes.worker_id, WorkerRequest.DRAIN, "somebody")

    lanes.keeper.record_heartbeat(WorkerStats())

    for thread in lanes.threads:
        thread.join(PATIENCE_S)
    assert not any(thread.is_alive() for thread in lanes.threads)
