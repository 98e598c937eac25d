"""The loop of a lane: lease a shard, translate it batch by batch, record each batch, until nothing is ready."""

import logging
import time

from jobs.errors import ModelError, NotFoundError, SpecError, StaleLease, Stopped, TransientError
from jobs.outcome import StepTiming
from jobs.spec import Timing
from jobs.store import leases
from jobs.store.batches import Batch
from jobs.store.database import Database
from jobs.store.jobs import pause
from jobs.store.leases import Work
from jobs.store.record import record
from worker.engine.translation import Translated
from worker.memory import StoredMemory
from worker.poison import translate_whatever_happens
from worker.shift import Shift
from worker.warm import Lane

log = logging.getLogger(__name__)

LONGEST_PAUSE_S = 30.0


def drain(database: Database, lane: Lane, shift: Shift) -> None:
    """Work until no shard is ready, or the shift stops. Raises TransientError where the database does not answer."""
    while not shift.is_stopping():
        started = time.perf_counter()
        work = leases.lease(database, shift.worker_id, lane.number, shift.lease_s)
        if work is None:
            return
        shift.begin(work)
        try:
            _work_through(database, lane, shift, work, StepTiming("queue", 0, 0, 0, 0, time.perf_counter() - started))
        except StaleLease as error:
            log.warning("%s", error)
        except Stopped:
            leases.release(database, work)
        except (ModelError, NotFoundError, SpecError) as error:
            # Every document would fail alike: the job waits for a person instead of losing its documents one by one.
            log.error("job %d is paused: %s", work.job_id, error)
            leases.release(database, work)
            pause(database, work.job_id, str(error))
        finally:
            shift.end(work)


def _work_through(database: Database, lane: Lane, shift: Shift, work: Work, queue: StepTiming) -> None:
    translator = lane.translator(work.spec)
    memory = StoredMemory(database, work.spec)
    late = [queue]  # what the next record takes along: its own duration a record cannot know
    for index, batch in enumerate(work.batches):
        if index and shift.should_release(work):
            raise Stopped("released between two batches")

        def translate(documents: Batch) -> Translated:
            return translator.translate(
                [document.text for document in documents],
                work.spec.options,
                memory=memory,
                memory_digest=memory.digest,
                should_stop=lambda: shift.must_stop(work),
            )

        result = translate_whatever_happens(translate, batch)
        timings = [] if work.spec.options.timing == Timing.OFF else [*late, *result.timings]
        started = time.perf_counter()
        _record(database, shift, work, index, result, timings)
        late = [StepTiming("record", 0, len(batch), 0, 0, time.perf_counter() - started)]


def _record(
    database: Database, shift: Shift, work: Work, index: int, result: Translated, timings: list[StepTiming]
) -> None:
    """Record, and go on trying while the database is locked or its disk full: the batch is worth more than the wait.
    If the lease is lost meanwhile, the fence says so."""
    pause_s = 0.5
    while True:
        try:
            record(
                database,
                work,
                index,
                result.outcomes,
                learned=result.learned,
                timings=timings,
                lease_s=shift.lease_s,
            )
            return
        except TransientError as error:
            if shift.must_stop(work):
                raise
            log.warning("shard %d: %s; trying again in %.1f s", work.shard_id, error, pause_s)
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
