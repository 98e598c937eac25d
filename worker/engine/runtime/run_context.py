"""What a batch carries down to every model call: whether to stop, the memory of earlier results, a stopwatch."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace

from jobs.errors import Stopped
from jobs.outcome import StepTiming
from jobs.tasks.shared_options import Timing
from worker.engine.runtime.result_memory import NoMemory, ResultMemory
from worker.engine.runtime.timing import Counted, Stopwatch


def never() -> bool:
    """A `should_stop` that never stops the run."""
    return False


@dataclass(frozen=True, slots=True)
class RunContext:
    """Made once for a batch, and passed from its lane down to every model call. Lanes do not share one."""

    stopwatch: Stopwatch = field(default_factory=Stopwatch)
    should_stop: Callable[[], bool] = never
    memory: ResultMemory = field(default_factory=NoMemory)
    digest: bytes = b""  # of the model and the options that results depend on: every key of the memory is made with it

    def anew(self, digest: bytes, timing: Timing) -> "RunContext":
        """This context with a new stopwatch, for results of this digest. What is computed again is timed again."""
        return replace(self, stopwatch=Stopwatch(timing), digest=digest)

    def raise_if_stopped(self, between: str) -> None:
        """Raise Stopped if the run is to end. `between`: a plural noun for the message, such as steps, calls,
        batches."""
        if self.should_stop():
            raise Stopped(f"stopped between two {between}")

    def measure(
        self, phase: str, *, step: int = 0, rows: int = 0, tokens: int = 0, past_length: int = 0
    ) -> AbstractContextManager[Counted]:
        """Time the block (`Stopwatch.measure`)."""
        return self.stopwatch.measure(phase, step=step, rows=rows, tokens=tokens, past_length=past_length)

    @property
    def timings(self) -> list[StepTiming]:
        """The timings measured so far (`Stopwatch.timings`)."""
        return self.stopwatch.timings
