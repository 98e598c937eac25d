"""Where the seconds go: one `StepTiming` for every model call and every other phase of a batch."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from jobs.outcome import StepTiming
from jobs.spec import Timing


@dataclass(slots=True)
class Counted:
    """What a block may say about itself once it knows."""

    tokens: int


class Stopwatch:
    """Collects the timings of one call into an engine. Not shared between lanes."""

    def __init__(self, mode: Timing = Timing.STEPS) -> None:
        self.timings: list[StepTiming] = []
        self._mode = mode
        self._open: dict[str, StepTiming] = {}  # sums of the batch in hand, by phase

    @contextmanager
    def measure(
        self, phase: str, *, step: int = 0, rows: int = 0, tokens: int = 0, past_length: int = 0
    ) -> Iterator[Counted]:
        """Time the block. What raises is not recorded: its batch is dropped."""
        counted = Counted(tokens)
        started = time.perf_counter()
        yield counted
        seconds = time.perf_counter() - started
        if self._mode is Timing.OFF:
            return
        timing = StepTiming(phase, step, rows, counted.tokens, past_length, seconds)
        if self._mode is Timing.STEPS:
            self.timings.append(timing)
        else:
            self._open[phase] = _sum(self._open.get(phase), timing)

    def end_batch(self) -> None:
        """In the mode `batches`: the sums so far are one batch."""
        self.timings.extend(self._open.values())
        self._open.clear()


def _sum(one: StepTiming | None, other: StepTiming) -> StepTiming:
    """Everything but the step number adds up, so that a mean is a sum over `calls`."""
    if one is None:
        return StepTiming(other.phase, 0, other.rows, other.tokens, other.past_length, other.seconds, other.calls)
    return StepTiming(
        one.phase,
        0,
        one.rows + other.rows,
        one.tokens + other.tokens,
        one.past_length + other.past_length,
        one.seconds + other.seconds,
        one.calls + other.calls,
    )
