"""The context of one call of a task: whether it may go on, and how long each part took."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from jobs.errors import Stopped
from jobs.outcome import StepTiming
from worker.engine.runtime.timing import Counted, Stopwatch


def never() -> bool:
    """A `should_stop` that never stops the run."""
    return False


@dataclass(frozen=True, slots=True)
class RunContext:
    """Passed from a task down to every model call. Lanes do not share one."""

    stopwatch: Stopwatch = field(default_factory=Stopwatch)
    should_stop: Callable[[], bool] = never

    def raise_if_stopped(self, between: str) -> None:
        """Raise Stopped if the run is to end here, between two of what `between` names: steps, calls, batches."""
        if self.should_stop():
            raise Stopped(f"stopped between two {between}")

    def measure(
        self, phase: str, *, step: int = 0, rows: int = 0, tokens: int = 0, past_length: int = 0
    ) -> AbstractContextManager[Counted]:
        """Time the block: see `Stopwatch.measure`."""
        return self.stopwatch.measure(phase, step=step, rows=rows, tokens=tokens, past_length=past_length)

    @property
    def timings(self) -> list[StepTiming]:
        """See `Stopwatch.timings`."""
        return self.stopwatch.timings
