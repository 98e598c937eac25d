"""Timing: a `StepTiming` for every model call and every other phase of a batch."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from jobs.outcome import StepTiming
from jobs.tasks.shared_options import Timing


@dataclass(slots=True)
class Counted:
    """Counts that a timed block may set while it runs."""

    tokens: int


class Stopwatch:
    """Collects the timings of one batch of documents. Lanes do not share one."""

    def __init__(self, mode: Timing = Timing.STEPS) -> None:
        self._mode = mode
        self._steps: list[StepTiming] = []
        self._sums: dict[str, StepTiming] = {}  # by phase, in the mode `batches`

    @property
    def timings(self) -> list[StepTiming]:
        """A timing for each measured block; in the mode `batches` a sum for each phase."""
        return [*self._steps, *self._sums.values()]

    @contextmanager
    def measure(
        self, phase: str, *, step: int = 0, rows: int = 0, tokens: int = 0, past_length: int = 0
    ) -> Iterator[Counted]:
        """Time the block. A block that raises is not recorded: its batch is computed again."""
        counted = Counted(tokens)
        started = time.perf_counter()
        yield counted
        seconds = time.perf_counter() - started
        if self._mode is Timing.OFF:
            return
        timing = StepTiming(phase, step, rows, counted.tokens, past_length, seconds)
        if self._mode is Timing.STEPS:
            self._steps.append(timing)
        else:
            self._sums[phase] = _sum(self._sums.get(phase), timing)


def _sum(total: StepTiming | None, call: StepTiming) -> StepTiming:
    """`total` (None: nothing yet) with `call` added in every field except the step number. A mean is a field divided by
    `calls`."""
    if total is None:
        return StepTiming(call.phase, 0, call.rows, call.tokens, call.past_length, call.seconds, call.calls)
    return StepTiming(
        total.phase,
        0,
        total.rows + call.rows,
        total.tokens + call.tokens,
        total.past_length + call.past_length,
        total.seconds + call.seconds,
        total.calls + call.calls,
    )
