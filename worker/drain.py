"""The loop of a lane: lease a shard, process it batch by batch, record each batch, until nothing is ready."""

import logging
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from jobs.errors import ModelError, NotFoundError, SpecError, StaleLease, Stopped, StoreError, ValueRefused
from jobs.failpoints import failpoint
from jobs.outcome import Score, SegmentTranslation, StepTiming
from jobs.queues import Queues
from jobs.spec import Timing
from jobs.store import leases
from jobs.store.batches import Batch
from jobs.store.database import Database
from jobs.store.record import record
from jobs.store.sandbox_deaths import log_death
from jobs.store.work import Work
from worker.engine.tasks.batch_result import BatchResult
from worker.engine_for import process
from worker.isolation.bisect import process_or_bisect
from worker.isolation.sandbox import SandboxDied
from worker.isolation.suspects import OpenSandbox, process_suspects
from worker.lane import Lane
from worker.process.lease_keeper import LeaseKeeper
from worker.process.watchdog import WatchedCall
from worker.result_memory import StoredMemory

log = logging.getLogger(__name__)

T = TypeVar("T")

LONGEST_PAUSE_S = 10.0


def drain(
    database: Database,
    lane: Lane,
    shift: LeaseKeeper,
    queues: Queues = Queues(),  # noqa: B008 - frozen
    first_job: int | None = None,
    open_sandbox: OpenSandbox | None = None,
) -> None:
    """Process shards until none is ready or the worker stops. Without `open_sandbox`, a suspect batch is processed like
    any other. Raises StoreError where the database is away or refuses."""
    while not shift.is_stopping():
        started = time.perf_counter()
        work = leases.lease(
            database,
            shift.worker_id,
            lane.number,
            shift.lease_s,
            queues=queues,
            warm=lane.warm,
            first_job=first_job,
        )
        if work is None:
            return
        shift.begin(work)
        shift.journal.begin(work)
        how = "given back"
        try:
            leased = StepTiming("queue", 0, 0, 0, 0, time.perf_counter() - started)
            _work_through(database, lane, shift, work, leased, open_sandbox)
            how = "done"
        except StaleLease as error:
            how = "lost to another worker"
            log.warning("%s", error)
        except Stopped:
            _give_back(database, shift, work)
        except ValueRefused:
            raise  # with blame: another worker would fare no better with these documents
        except StoreError:
            # Without blame: a shard that is merely let go would run out as if its process had died.
            _give_back(database, shift, work)
            raise
        except (ModelError, NotFoundError, SpecError) as error:
            # Every document would fail alike: the job waits for a person instead of losing its documents one by one.
            log.error("job %d is paused: %s", work.job_id, error)
            _pause(database, shift, work, str(error))
        finally:
            shift.end(work)
            shift.journal.end(work, how)


def _work_through(
    database: Database,
    lane: Lane,
    shift: LeaseKeeper,
    work: Work,
    leased: StepTiming,
    open_sandbox: OpenSandbox | None,
) -> None:
    lane.open(work.spec)  # what can be wrong with the model is wrong for every batch
    memory = StoredMemory(database, work.spec)
    late = [leased]  # what the next record takes along: its own duration a record cannot know

    def compute(documents: Batch) -> BatchResult:
        with shift.watch.watching(_name(work, documents)) as call:

            def should_stop() -> bool:
                call.step()
                return shift.must_stop(work)

            texts = [document.text for document in documents]
            return process(lane, work.spec, texts, _Unwatched(memory, call), should_stop)

    for index, batch in enumerate(work.batches):
        if index and shift.should_release(work):
            raise Stopped("released between two batches")
        if work.suspect and index == 0 and open_sandbox is not None:
            result = _process_suspects(database, shift, work, open_sandbox)
        else:
            result = process_or_bisect(compute, batch)
        if changed := lane.changed_files():
            # Nothing of the batch is kept. The next lease reads the files again: it pauses the job, or goes on where
            # they say what they said.
            log.warning(
                "job %d: %s of its model changed meanwhile; a batch is dropped", work.job_id, ", ".join(changed)
            )
            raise Stopped("the model's files changed under a batch")
        failpoint("after-compute")
        timings = [] if work.spec.options.timing == Timing.OFF else [*late, *result.timings]
        started = time.perf_counter()
        _record(database, shift, work, index, result, timings)
        late = [StepTiming("record", 0, len(batch), 0, 0, time.perf_counter() - started)]


def _process_suspects(database: Database, shift: LeaseKeeper, work: Work, open_sandbox: OpenSandbox) -> BatchResult:
    """The first batch, outside this process: it was in flight when two processes died."""

    def log_it(documents: Batch, death: SandboxDied) -> None:
        if _insist(shift, work, lambda: log_death(database, work, documents, death.how)):
            raise Stopped("the job was paused: too many processes died")

    return process_suspects(
        work.batches[0],
        lambda: open_sandbox(work.spec, shift.watch.deadline_s, lambda: shift.must_stop(work)),
        log_it,
    )


class _Unwatched:
    """A memory that may wait for its database without being taken for a lane that hangs."""

    def __init__(self, memory: StoredMemory, call: WatchedCall) -> None:
        self.digest = memory.digest
        self._memory = memory
        self._call = call

    def recall(self, keys: Sequence[bytes]) -> dict[bytes, SegmentTranslation]:
        with self._call.waiting():
            return self._memory.recall(keys)

    def recall_scores(self, keys: Sequence[bytes]) -> dict[bytes, Score]:
        with self._call.waiting():
            return self._memory.recall_scores(keys)


def _record(
    database: Database, shift: LeaseKeeper, work: Work, index: int, result: BatchResult, timings: list[StepTiming]
) -> None:
    """Record, and go on trying whatever ails the database: the batch is worth more than the wait.
    If the lease is lost meanwhile, the fence says so."""
    _insist(
        shift,
        work,
        lambda: record(
            database,
            work,
            index,
            result.outcomes,
            learned=result.learned,
            timings=timings,
            lease_s=shift.lease_s,
        ),
    )


def _give_back(database: Database, shift: LeaseKeeper, work: Work) -> None:
    _insist(shift, work, lambda: leases.release(database, work))


def _pause(database: Database, shift: LeaseKeeper, work: Work, reason: str) -> None:
    _insist(shift, work, lambda: leases.refuse(database, work, reason))


def _insist(shift: LeaseKeeper, work: Work, write: Callable[[], T]) -> T:
    """Try until the database takes it. Raises StoreError where there is nothing left to write for, and ValueRefused at
    once."""
    pause_s = 0.5
    while True:
        try:
            done = write()
        except ValueRefused:
            raise
        except StoreError as error:
            if shift.must_stop(work):
                raise
            shift.outage.met(error)
            time.sleep(min(pause_s, 1.0) if shift.is_stopping() else pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        else:
            shift.outage.over()
            return done


def _name(work: Work, documents: Batch) -> str:
    """For the log: a process that hangs is about to end."""
    first, last = documents[0].position, documents[-1].position
    return f"job {work.job_id}, shard {work.shard_id}, documents {first} to {last}"
