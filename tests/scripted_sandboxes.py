"""Sandboxes without a process, which die as scripted by a test, in place of `worker.isolation.sandbox`."""

from collections.abc import Callable

from jobs.answers import Answers
from jobs.store.queue.batches import Batch
from tests.rows import translated
from worker.isolation.sandbox import SandboxDied

SEGFAULT = SandboxDied("killed", "was killed by SIGSEGV")


class Sandboxes:
    """A factory of sandboxes, which records the batches that they tried and their deaths."""

    def __init__(self, kills: Callable[[list[int], int], SandboxDied | None]) -> None:
        """`kills(positions of the batch, number of tries so far)` returns how the sandbox dies, or None."""
        self.tried: list[list[int]] = []
        self.deaths: list[list[int]] = []
        self.opened = 0
        self.open = 0
        self._kills = kills

    def __call__(self, *_: object) -> "ScriptedSandbox":
        self.opened += 1
        self.open += 1
        return ScriptedSandbox(self)

    def on_death(self, batch: Batch, death: SandboxDied) -> None:
        self.deaths.append([document.position for document in batch])

    def process(self, batch: Batch) -> Answers:
        positions = [document.position for document in batch]
        self.tried.append(positions)
        if (death := self._kills(positions, self.tried.count(positions))) is not None:
            raise death
        return Answers([translated(document.text) for document in batch])


class ScriptedSandbox:
    """One sandbox of a `Sandboxes` factory."""

    def __init__(self, sandboxes: Sandboxes) -> None:
        self.process = sandboxes.process
        self._sandboxes = sandboxes

    def close(self) -> None:
        self._sandboxes.open -= 1


def poison(*documents: int, death: SandboxDied = SEGFAULT) -> Sandboxes:
    """Sandboxes that die whenever one of these documents is in the batch."""
    return Sandboxes(lambda positions, _: death if set(positions) & set(documents) else None)
