"""
What the KV cache saves: the same sequences are generated with the cache and without it, in turns, and timed.

Knows: work that can be done both ways (`cache_work.py`). Does not know: models. Prints nothing.
"""

import dataclasses
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from jobs.outcome import DECODER_PHASES, StepTiming
from worker.engine.runtime.buffer_stats import BufferStats
from worker.engine.runtime.run_context import RunContext

_SOME_STEPS = 5  # at the beginning, behind the first, and at the end


@dataclass(frozen=True, slots=True)
class DecodingSpeed:
    """How fast the segments were decoded, with the cache or without it: medians over the repeats."""

    seconds: float  # from segments to ids, everything included
    decode_s: float  # the part of `seconds` spent in decoder calls
    seconds_per_step: float  # mean time of a decoder step of one batch, without its first step
    early_s: float  # mean time of steps 2 to 6; where there are fewer than 20 steps, of their first quarter
    late_s: float  # mean time of the last 5 steps, or of their last quarter
    tokens_per_second: float  # generated tokens per second of `seconds`
    step_s: tuple[float, ...]  # the time of each step of one batch

    @property
    def growth(self) -> float:
        """`late_s` / `early_s`: 1 where the time of a step does not depend on the tokens generated before it."""
        return self.late_s / self.early_s


@dataclass(frozen=True, slots=True)
class CacheReport:
    """Decoding with the cache and without it: the same segments or prompts, the same number of new tokens."""

    num_segments: int  # or prompts
    num_beams: int
    target_tokens: int  # of each; forced, so that both runs take the same number of steps
    batch_size: int
    repeats: int
    on: DecodingSpeed
    off: DecodingSpeed
    num_different: int  # sequences whose ids differ with and without the cache
    kv_bytes: int  # bytes of the decoder's buffers with the cache on, step buffers included
    buffer_allocations: int
    buffer_reuses: int

    @property
    def ratio(self) -> float:
        """How many times faster decoding is with the cache."""
        return self.off.seconds / self.on.seconds

    @property
    def is_equal(self) -> bool:
        """Whether both gave the same ids, token for token."""
        return self.num_different == 0


class CacheWork(Protocol):
    """What is computed with the cache and without it: sequences that begin together and are forced to one length."""

    @property
    def num_sequences(self) -> int: ...
    def check(self, num_tokens: int) -> None:
        """Raise SpecError if the model has no cache, or not as many positions as are needed."""

    def run(self, mode: str, num_tokens: int, context: RunContext) -> list[tuple[int, ...]]:
        """Generate so many tokens for each sequence, with the cache `on` or `off`; their ids, in order."""

    def buffer_stats(self, mode: str) -> BufferStats:
        """The memory of the buffers."""

    def step_of(self, timing: StepTiming) -> int | None:
        """The step, from 0, that a timing belongs to; None: to none."""

    def batches_in(self, timings: Sequence[StepTiming]) -> int:
        """How many batches have taken one step in these calls."""


def measure_cache(
    work: CacheWork,
    *,
    target_tokens: int,
    num_beams: int = 1,
    batch_size: int = 32,
    repeats: int = 3,
    warm_up: bool = True,
) -> CacheReport:
    """Do the work with the cache on and off, alternately. Raises SpecError if the model has no cache, or if the lengths
    do not fit its positions."""
    work.check(target_tokens)
    if warm_up:
        for mode in ("on", "off"):
            work.run(mode, 2, RunContext())
    runs: dict[str, list[DecodingSpeed]] = {"on": [], "off": []}
    ids: dict[str, list[tuple[int, ...]]] = {}
    for repeat in range(repeats):
        for mode in ("on", "off") if repeat % 2 == 0 else ("off", "on"):
            context, started = RunContext(), time.perf_counter()
            ids[mode] = work.run(mode, target_tokens, context)
            seconds = time.perf_counter() - started
            runs[mode].append(_summary(work, context.timings, seconds, sum(map(len, ids[mode]))))
    buffers = work.buffer_stats("on")
    return CacheReport(
        num_segments=work.num_sequences,
        num_beams=num_beams,
        target_tokens=target_tokens,
        batch_size=batch_size,
        repeats=repeats,
        on=_median(runs["on"]),
        off=_median(runs["off"]),
        num_different=sum(ids_on != ids_off for ids_on, ids_off in zip(ids["on"], ids["off"], strict=True)),
        kv_bytes=buffers.num_bytes,
        buffer_allocations=buffers.allocations,
        buffer_reuses=buffers.reuses,
    )


def _summary(work: CacheWork, timings: Sequence[StepTiming], seconds: float, num_tokens: int) -> DecodingSpeed:
    """A step may consist of several calls, of parts of a batch and of a head."""
    by_step: dict[int, list[StepTiming]] = {}
    for timing in timings:
        if (step := work.step_of(timing)) is not None:
            by_step.setdefault(step, []).append(timing)
    step_s = tuple(
        sum(one.seconds for one in by_step[step]) / work.batches_in(by_step[step]) for step in sorted(by_step)
    )
    later = step_s[1:]
    some = min(_SOME_STEPS, max(1, len(later) // 4))
    return DecodingSpeed(
        seconds=seconds,
        decode_s=sum(timing.seconds for timing in timings if timing.phase in (*DECODER_PHASES, "head")),
        seconds_per_step=statistics.fmean(later),
        early_s=statistics.fmean(later[:some]),
        late_s=statistics.fmean(later[-some:]),
        tokens_per_second=num_tokens / seconds,
        step_s=step_s,
    )


def _median(runs: Sequence[DecodingSpeed]) -> DecodingSpeed:
    names = (field.name for field in dataclasses.fields(DecodingSpeed) if field.name != "step_s")
    steps = zip(*(run.step_s for run in runs), strict=True)
    return DecodingSpeed(
        **{name: statistics.median(getattr(run, name) for run in runs) for name in names},
        step_s=tuple(statistics.median(step) for step in steps),
    )
