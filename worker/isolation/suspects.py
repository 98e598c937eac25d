"""
A batch that was in flight when worker processes died twice in a row: find the document that kills them, in disposable
processes (sandboxes).

    the whole batch in a sandbox     it survives: the deaths had another cause; the results equal an undisturbed run's,
                                     bit for bit
    else one document at a time      the sandbox dies: the next document gets a new one
    each that died, once more alone  it dies again: quarantined

One poison document costs 2 deaths of warm processes and 3 of sandboxes.
"""

import contextlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from jobs.answers import Answers, join
from jobs.errors import ModelError
from jobs.outcome import Quarantined
from jobs.store.queue.batches import Batch
from worker.engine.runtime.run_context import RunContext
from worker.isolation.sandbox import SandboxDied
from worker.providers.protocol import AnsweringLane, ProviderJob

log = logging.getLogger(__name__)

# The model is at fault, not the documents, where all of the first documents tried alone kill their sandbox: 6 of them,
# taken from all over the batch. In a batch of 4 or 5, all of it; a smaller one says too little.
TRIED_ALONE, SMALLEST_BATCH = 6, 4
MAX_LOADS = 3  # sandboxes in a row that die before a document is sent; then the model is at fault


class DisposableProcess(Protocol):
    """A process that a document may kill: see `worker.isolation.sandbox`."""

    def process(self, batch: Batch) -> Answers: ...
    def close(self) -> None: ...


# Opens a sandbox for a local provider's job, given its deadline (seconds without a sign of life) and whether to stop.
OpenSandbox = Callable[[ProviderJob, Callable[[], float], Callable[[], bool]], DisposableProcess]


@dataclass(frozen=True, slots=True)
class SuspectsLane:
    """A lane around the lane of a provider that computes in this process, for the first batch of a suspect shard: a
    document that kills its sandbox twice, alone, becomes `Quarantined`."""

    lane: AnsweringLane
    open_sandbox: Callable[[ProviderJob], DisposableProcess]
    # Called at each death of a sandbox, with the documents that it was processing, before anything else happens; what
    # it raises ends the search.
    on_death: Callable[[Batch, SandboxDied], None]
    advice: str  # for a person: what to do if the model is at fault

    def open(self, job: ProviderJob) -> None:
        self.lane.open(job)

    def process(self, job: ProviderJob, documents: Batch, run: RunContext) -> Answers:
        """Raises every error of the engine, and ModelError where sandboxes die with every document."""
        with contextlib.closing(_Sandboxes(lambda: self.open_sandbox(job), self.on_death)) as sandboxes:
            whole = sandboxes.attempt(documents)
            if isinstance(whole, Answers):
                return whole
            found: dict[int, Answers | SandboxDied] = {}
            for index in _spread(len(documents)):
                found[index] = sandboxes.attempt((documents[index],))
                if len(found) == min(TRIED_ALONE, max(SMALLEST_BATCH, len(documents))):
                    _check_model(found, whole, self.advice)
            results = {
                index: _try_again(sandboxes, (documents[index],), result) if isinstance(result, SandboxDied) else result
                for index, result in found.items()
            }
            return join(results[index] for index in range(len(documents)))


def _spread(count: int) -> list[int]:
    """0 to count - 1, the first `TRIED_ALONE` from all over: poison documents are often neighbours."""
    step = max(1, count // TRIED_ALONE)
    return sorted(range(count), key=lambda index: (index % step, index))


def _check_model(found: Mapping[int, Answers | SandboxDied], whole: SandboxDied, advice: str) -> None:
    """Raise ModelError if every document tried so far killed its sandbox."""
    if all(isinstance(result, SandboxDied) for result in found.values()):
        raise ModelError(
            f"the process that runs the model died on each of {len(found)} documents that were tried one by one (it "
            f"{whole.how}), so the model is at fault, not the documents; {advice}"
        )


def _try_again(sandboxes: "_Sandboxes", batch: Batch, first: SandboxDied) -> Answers:
    """Process a document again, alone in a new sandbox: its answer, or Quarantined if that sandbox dies too."""
    sandboxes.close()
    again = sandboxes.attempt(batch)
    if isinstance(again, Answers):
        return again
    log.warning("document %d is quarantined: its process %s", batch[0].position, again.how)
    if again.how == first.how:
        message = f"each of two processes that worked on this document alone {again.how}"
    else:
        message = f"of two processes that worked on this document alone, one {first.how} and one {again.how}"
    return Answers([Quarantined(again.code, message)])


class _Sandboxes:
    """One sandbox at a time: opened when it is needed, used until it dies."""

    def __init__(
        self, open_sandbox: Callable[[], DisposableProcess], on_death: Callable[[Batch, SandboxDied], None]
    ) -> None:
        self._open_sandbox = open_sandbox
        self._on_death = on_death
        self._sandbox: DisposableProcess | None = None

    def attempt(self, batch: Batch) -> Answers | SandboxDied:
        """The answers, or how the sandbox died."""
        if self._sandbox is None:
            self._sandbox = self._open()
        try:
            return self._sandbox.process(batch)
        except SandboxDied as death:
            self.close()
            log.warning("the process for suspect documents %s (documents in the batch: %d)", death.how, len(batch))
            self._on_death(batch, death)
            return death

    def close(self) -> None:
        if self._sandbox is not None:
            self._sandbox.close()
            self._sandbox = None

    def _open(self) -> DisposableProcess:
        for _ in range(MAX_LOADS):
            try:
                return self._open_sandbox()
            except SandboxDied as death:
                self._on_death((), death)
                last = death
        raise ModelError(
            f"the process that loads the model {last.how}, {MAX_LOADS} times: try kvjobs doctor, then resume"
        )
