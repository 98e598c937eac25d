"""A leased shard: its batches are processed and recorded one by one, then the lease is done, given back, or lost."""

import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from jobs.answers import Answers
from jobs.errors import Stopped, StoreError, ValueRefused
from jobs.failpoints import failpoint
from jobs.outcome import StepTiming
from jobs.providers import NO_PROVIDER
from jobs.spec import Timing
from jobs.store import leases
from jobs.store.batches import MAX_BATCHES_AT_ONCE, Batch, joined
from jobs.store.circuit_breaker import log_death
from jobs.store.database import Database
from jobs.store.pauses import how_to_verify
from jobs.store.record import record
from jobs.store.work import Work
from worker.engine.runtime.run_context import RunContext
from worker.isolation.bisect import process_or_bisect
from worker.isolation.sandbox import SandboxDied
from worker.isolation.suspects import OpenSandbox, process_suspects
from worker.lane import Lane
from worker.local_processing import process_locally
from worker.process.lease_keeper import LeaseKeeper
from worker.providers.protocol import ProviderJob
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

    def process(self, leasing: StepTiming) -> None:
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
            answers = self.lane.fallback.answer(
                work.job_id,
                work.spec.on_route(batch[0].route),
                batch,
                _AskFrom(self, is_suspect=work.suspect and index == 0),
            )
            self._check_model_files(answers)
            self._join_following(index)
            failpoint("after-compute")
            timings = [] if work.spec.options.timing == Timing.OFF else [*unrecorded, *answers.timings]
            started = time.perf_counter()
            self._record(index, replace(answers, timings=timings))
            unrecorded = [StepTiming("record", 0, len(batch), 0, 0, time.perf_counter() - started)]
            index += 1

    def _join_following(self, index: int) -> None:
        """Join the batches behind this one as the lane's pace allows, which was not known when they were cut: a small
        job, of one shard, is otherwise computed in small pieces. Before the record, which notes the next batch."""
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

    def ask(self, job: ProviderJob, documents: Batch, *, is_suspect: bool) -> Answers:
        """Ask a provider; see `ProviderLane.process`. A local one is isolated from documents that break it."""
        if not self.lane.is_local(job.choice.name):
            with self._watching(documents) as run:
                return self.lane.provider(job.choice.name).process(job, documents, run)
        if is_suspect and self._open_sandbox is not None:
            return self._process_suspects(job, documents, self._open_sandbox)
        return process_or_bisect(lambda some: self._compute(job, some), documents)

    def pause(self, seconds: float) -> None:
        """Wait for a provider. Raises Stopped where the lease is lost or is to be given back."""
        if self._keeper.should_release(self.work) or self._keeper.must_stop(self.work):
            raise Stopped("stopped while waiting for a provider")
        time.sleep(seconds)

    def _compute(self, job: ProviderJob, documents: Batch) -> Answers:
        with self._watching(documents) as run:
            return process_locally(self.lane, job, documents, run)

    @contextlib.contextmanager
    def _watching(self, documents: Batch) -> Iterator[RunContext]:
        """The context of one call of a provider, which the watchdog ends if it hangs."""
        with self._keeper.watchdog.watching(self._describe(documents)) as call:

            def should_stop() -> bool:
                call.step()
                return self._keeper.must_stop(self.work)

            yield RunContext(should_stop=should_stop, memory=StoredMemory(self._database, call.waiting))

    def _process_suspects(self, job: ProviderJob, batch: Batch, open_sandbox: OpenSandbox) -> Answers:
        """The first batch, which was in flight when two processes died: in disposable processes."""

        def on_death(documents: Batch, death: SandboxDied) -> None:
            if self._write(lambda: log_death(self._database, self.work, documents, death.how)):
                raise Stopped("the job was paused: too many processes died")

        spec = self.work.spec
        return process_suspects(
            batch,
            lambda: open_sandbox(job, self._keeper.watchdog.deadline_s, lambda: self._keeper.must_stop(self.work)),
            on_death,
            how_to_verify(self.work.job_id, spec.model),
        )

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
        """Write to the database, trying again whatever StoreError it raises: a computed batch is worth the wait.

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

    def _describe(self, documents: Batch) -> str:
        """The batch as the watchdog's log names it."""
        first, last = documents[0].position, documents[-1].position
        return f"job {self.work.job_id}, shard {self.work.shard_id}, documents {first} to {last}"


@dataclass(frozen=True, slots=True)
class _AskFrom:
    """How the lane of a leased shard asks a provider: `worker.providers.fallback.AskProvider`."""

    shard: LeasedShard
    is_suspect: bool

    def is_local(self, name: str) -> bool:
        return self.shard.lane.is_local(name)

    def open(self, job: ProviderJob) -> None:
        self.shard.lane.provider(job.choice.name).open(job)

    def process(self, job: ProviderJob, documents: Batch) -> Answers:
        return self.shard.ask(job, documents, is_suspect=self.is_suspect)

    def pause(self, seconds: float) -> None:
        self.shard.pause(seconds)
