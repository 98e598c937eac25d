"""
A batch during which processes died twice in a row: find the document that does it, at the cost of processes that
nobody needs.

    the whole batch in a cage      it lives: two innocent deaths, and the very bits of an undisturbed run
    else one document at a time    the cage dies: the next document gets a new one
    who died, once more, alone     the second death: quarantined

One poison document costs 2 deaths of warm processes and 3 of cages.
"""

import contextlib
import logging
from collections.abc import Callable
from typing import Protocol

from jobs.errors import ModelError
from jobs.outcome import Quarantined
from jobs.spec import JobSpec
from jobs.store.batches import Batch
from worker.engine.tasks.batch_result import BatchResult
from worker.isolation.sandbox import SandboxDied

log = logging.getLogger(__name__)

# So many documents, from all over the batch, that are tried alone and all kill their process (all of a smaller batch,
# but not of a tiny one): it is the model, not the documents.
HOPELESS, TINY = 6, 4
LOADS = 3  # that end in death before a document is even sent, until it is the model


class Isolated(Protocol):
    """A process that may die: see `worker.isolation.sandbox`."""

    def translate(self, batch: Batch) -> BatchResult: ...
    def close(self) -> None: ...


# Opens a sandbox for a job, given how long it may be silent (seconds) and whether to stop.
OpenSandbox = Callable[[JobSpec, Callable[[], float], Callable[[], bool]], Isolated]


def process_suspects(
    batch: Batch, open_cage: Callable[[], Isolated], on_death: Callable[[Batch, SandboxDied], None]
) -> BatchResult:
    """Translate a batch; a document that kills its process twice, alone, becomes `Quarantined`.

    `on_death` is told at once what each process had in hand, and may raise to end it. Raises what the engine raises,
    and ModelError where process after process dies whatever the document.
    """
    with contextlib.closing(_Sandboxes(open_cage, on_death)) as cages:
        whole = cages.translate(batch)
        if isinstance(whole, BatchResult):
            return whole
        found: dict[int, BatchResult | SandboxDied] = {}
        for index in _spread(len(batch)):
            found[index] = cages.translate((batch[index],))
            if len(found) == min(HOPELESS, max(TINY, len(batch))) and all(
                isinstance(r, SandboxDied) for r in found.values()
            ):
                raise ModelError(
                    f"the model's process died on each of {len(found)} documents that were tried one by one (it "
                    f"{whole.how}), so it is not the documents: try the model on one of them, then resume the job"
                )
        results = {
            index: _once_more(cages, (batch[index],), result) if isinstance(result, SandboxDied) else result
            for index, result in found.items()
        }
        return _join([results[index] for index in range(len(batch))])


def _spread(count: int) -> list[int]:
    """0 to count - 1, the first ones from all over: poison documents often stand together."""
    step = max(1, count // HOPELESS)
    return sorted(range(count), key=lambda index: (index % step, index))


def _once_more(cages: "_Sandboxes", batch: Batch, first: SandboxDied) -> BatchResult:
    cages.close()
    again = cages.translate(batch)
    if isinstance(again, BatchResult):
        return again
    log.warning("document %d is quarantined: its process %s", batch[0].position, again.how)
    if again.how == first.how:
        message = f"each of two processes that worked on this document alone {again.how}"
    else:
        message = f"of two processes that worked on this document alone, one {first.how} and one {again.how}"
    outcome = Quarantined(again.code, message)
    return BatchResult([outcome], {}, [])


def _join(results: list[BatchResult]) -> BatchResult:
    return BatchResult(
        outcomes=[outcome for result in results for outcome in result.outcomes],
        learned={key: segment for result in results for key, segment in result.learned.items()},
        timings=[timing for result in results for timing in result.timings],
    )


class _Sandboxes:
    """One cage at a time: opened when it is needed, and used until something dies in it."""

    def __init__(self, open_cage: Callable[[], Isolated], on_death: Callable[[Batch, SandboxDied], None]) -> None:
        self._open_cage = open_cage
        self._on_death = on_death
        self._cage: Isolated | None = None

    def translate(self, batch: Batch) -> BatchResult | SandboxDied:
        if self._cage is None:
            self._cage = self._open()
        try:
            return self._cage.translate(batch)
        except SandboxDied as death:
            self.close()
            log.warning("the process for suspect documents %s (documents in it: %d)", death.how, len(batch))
            self._on_death(batch, death)
            return death

    def close(self) -> None:
        if self._cage is not None:
            self._cage.close()
            self._cage = None

    def _open(self) -> Isolated:
        for _ in range(LOADS):
            try:
                return self._open_cage()
            except SandboxDied as death:
                self._on_death((), death)
                last = death
        raise ModelError(f"the process that loads the model {last.how}, {LOADS} times: try kvjobs doctor, then resume")
