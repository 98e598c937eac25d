"""A leased shard: its batches are processed and recorded one by one, then the lease is done, given back, or lost."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from jobs.answers import Answers
from jobs.errors import Stopped, StoreError, ValueRefused
from jobs.outcome import StepTiming
from jobs.providers import NO_PROVIDER
from jobs.store.database import Database
from jobs.store.queue import leases
from jobs.store.queue.batches import MAX_BATCHES_AT_ONCE, Batch, joined
from jobs.store.queue.deaths import log_death
from jobs.store.queue.pauses import how_to_verify
from jobs.store.queue.record import record
from jobs.store.queue.work import Work
from jobs.system.failpoints import failpoint
from jobs.tasks.shared_options import Timing
from worker.engine.runtime.run_context import RunContext
from worker.isolation.bisect import BisectingLane
from worker.isolation.sandbox import SandboxDied
from worker.isolation.suspects import OpenSandbox, SuspectsLane
from worker.lane import Lane
from worker.process.lease_keeper import LeaseKeeper
from worker.process.watchdog import WatchedCalls
from worker.providers.protocol import AnsweringLane, ProviderJob
from worker.stored_glossaries import checked_for_terms, with_glossaries
from worker.stored_memory import StoredMemory

log = logging.getLogger(__name__)

T = TypeVar("T")

LONGEST_PAUSE_S = 10.0


class LeasedShard:
    """One lease of a shard, held by one lane."""

    def __init__(
        self,
        database: Database,
        lane: Lane,
        keeper: LeaseKeeper,
        work: Work,
        open_sandbox: OpenSandbox | None,
    ) -> None:
        self.work = work
        self._database = database
        self.lane = lane
        self._keeper = keeper
        self._open_sandbox = open_sandbox
        self.calls = WatchedCalls(keeper.watchdog)

    def finish(self, leasing: StepTiming) -> None:
        """Process and record every batch. `leasing`: the time that the lease took, for the first record.

        Raises Stopped between two batches or in one, StaleLease where the lease is lost, StoreError where the database
        refuses; ModelError, NotFoundError, SpecError and ProviderFailure where no document can be processed.
        """
        unrecorded = [leasing]  # timings for the next record; how long a record took is known only after it
        index = 0
        while index < len(self.work.batches):
            work, batch = self.work, self.work.batches[index]
            if index and self._keeper.should_release(work):
                raise Stopped("released between two batches")
            spec = work.spec.on_route(batch[0].route).with_own(batch[0].own_options)
            spec = with_glossaries(self._database, spec)
            lanes = _BatchLanes(self, is_suspect=work.suspect and index == 0)
            run = RunContext(should_stop=self._must_stop, memory=StoredMemory(self._database, self.calls.waiting))
            answers = self.lane.fallback.answer(work.job_id, spec, batch, lanes, run)
            answers = checked_for_terms(spec, batch, answers)
            self._check_model_files(answers)
            self._join_following(index)
            failpoint("after-compute")
            timings = [] if work.spec.options.timing == Timing.OFF else [*unrecorded, *answers.timings]
            started = time.perf_counter()
            self._record(index, replace(answers, timings=timings))
            unrecorded = [StepTiming("record", 0, len(batch), 0, 0, time.perf_counter() - started)]
            index += 1

    def _join_following(self, index: int) -> None:
        """Join the batches after this one as the lane's pace allows. The pace was not known when they were cut, so
        a job of one shard would have small batches only. Call this before `_record`, which notes the next batch."""
        begun, following = self.work.batches[: index + 1], self.work.batches[index + 1 :]
        times = min(self.lane.batches_at_once(self.work.spec), MAX_BATCHES_AT_ONCE) if following else 1
        if times > 1:
            self.work = replace(self.work, batches=(*begun, *joined(following, times)))

    def give_back(self, *, crashed: bool = False) -> None:
        """Make the shard ready for another lease, which goes on after the last recorded batch. `crashed`: see
        `leases.release`."""
        self._write(lambda: leases.release(self._database, self.work, crashed=crashed))

    def pause_job(self, reason: str) -> None:
        """Give the shard back, and pause its job until a person has looked at the reason."""
        self._write(lambda: leases.refuse(self._database, self.work, reason))

    def pause(self, seconds: float) -> None:
        """Wait for a provider. Raises Stopped where the lease is lost or is to be given back."""
        if self._keeper.should_release(self.work) or self._keeper.must_stop(self.work):
            raise Stopped("stopped while waiting for a provider")
        time.sleep(seconds)

    def isolated(self, lane: AnsweringLane, *, is_suspect: bool) -> AnsweringLane:
        """Wrap a local provider's lane, so that no document makes other documents fail. The first batch of a
        suspect shard, which was in flight when two processes died, goes to disposable processes."""
        open_sandbox = self._open_sandbox
        if not is_suspect or open_sandbox is None:
            return BisectingLane(_WatchedLane(lane, self))

        def on_death(documents: Batch, death: SandboxDied) -> None:
            if self._write(lambda: log_death(self._database, self.work, documents, death.how)):
                raise Stopped("the job was paused: too many processes died")

        return SuspectsLane(
            lane,
            lambda job: open_sandbox(job, self._keeper.watchdog.deadline_s, lambda: self._keeper.must_stop(self.work)),
            on_death,
            how_to_verify(self.work.job_id, self.work.spec.model),
        )

    def _must_stop(self) -> bool:
        """Note that the engine has taken a step; whether the call into the engine has to end."""
        self.calls.step()
        return self._keeper.must_stop(self.work)

    def _check_model_files(self, answers: Answers) -> None:
        """Raise Stopped where the files of a model that answered have changed, so that nothing of the batch is kept.
        The next lease reads them again: it pauses the job, or goes on where their content is the same."""
        names = sorted(set(answers.answered_by) - {NO_PROVIDER})
        if changed := [file for name in names for file in self.lane.provider(name).changed_files()]:
            log.warning(
                "job %d: %s of its model changed while a batch was computed; the batch is dropped",
                self.work.job_id,
                ", ".join(changed),
            )
            raise Stopped("the model's files changed under a batch")

    def _record(self, index: int, answers: Answers) -> None:
        self._write(lambda: record(self._database, self.work, index, answers, lease_s=self._keeper.lease_s))

    def _write(self, write: Callable[[], T]) -> T:
        """Write to the database, trying again after every StoreError: a computed batch is worth the wait.

        Raises StoreError once the lease is lost or the worker's time to finish is over, ValueRefused at once; and
        StaleLease where another worker has taken the shard over meanwhile.
        """
        keeper, pause_s = self._keeper, 0.5
        while True:
            try:
                done = write()
            except ValueRefused:
                raise
            except StoreError as error:
                if keeper.must_stop(self.work):
                    raise
                keeper.outage.met(error)
                time.sleep(min(pause_s, 1.0) if keeper.is_stopping() else pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
            else:
                keeper.outage.over()
                return done


@dataclass(frozen=True, slots=True)
class _BatchLanes:
    """The lane's providers as a batch of a leased shard asks them: `worker.providers.fallback.Lanes`."""

    shard: LeasedShard
    is_suspect: bool

    def is_local(self, name: str) -> bool:
        return self.shard.lane.is_local(name)

    def provider(self, name: str) -> AnsweringLane:
        lane = self.shard.lane.provider(name)
        if self.is_local(name):
            return self.shard.isolated(lane, is_suspect=self.is_suspect)
        return _WatchedLane(lane, self.shard)

    def pause(self, seconds: float) -> None:
        self.shard.pause(seconds)


@dataclass(frozen=True, slots=True)
class _WatchedLane:
    """A lane around a provider's: the watchdog ends the process where a call hangs."""

    lane: AnsweringLane
    shard: LeasedShard

    def open(self, job: ProviderJob) -> None:
        self.lane.open(job)

    def process(self, job: ProviderJob, documents: Batch, run: RunContext) -> Answers:
        work, first, last = self.shard.work, documents[0].position, documents[-1].position
        with self.shard.calls.watching(f"job {work.job_id}, shard {work.shard_id}, documents {first} to {last}"):
            return self.lane.process(job, documents, run)
