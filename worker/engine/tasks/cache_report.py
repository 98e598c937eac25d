"""
What the KV cache saves: the same sequences are generated with the cache and without it, in turns, and timed.

The work is segments to translate, or prompts to continue. All sequences of a batch begin together and are forced to the
same length, so that both ways take the same steps. Prints nothing.
"""

import dataclasses
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from jobs.errors import SpecError
from jobs.outcome import DECODER_PHASES, StepTiming
from jobs.tasks.shared_options import CachePolicy
from worker.engine.causal.protocol import CausalModel
from worker.engine.runtime.buffer_stats import BufferStats
from worker.engine.runtime.run_context import RunContext
from worker.engine.search.continuation_rules import ContinuationRules
from worker.engine.seq2seq.protocol import Seq2SeqModel, decode_all

_SOME_STEPS = 5  # steps that are averaged after the first step, and at the end
MODES = ("on", "off")


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
        """Generate `num_tokens` tokens for each sequence, with the cache `on` or `off`; their ids, in order."""

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
) -> CacheReport:
    """Do the work with the cache on and off, alternately. Raises SpecError if the model has no cache, or if the lengths
    do not fit its positions."""
    work.check(target_tokens)
    for mode in ("on", "off"):  # warms buffers up
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
    """The speed of a run. A step may consist of several calls: of parts of a batch, and of a head."""
    by_step: dict[int, list[StepTiming]] = {}
    for timing in timings:
        if (step := work.step_of(timing)) is not None:
            by_step.setdefault(step, []).append(timing)
    step_s = tuple(
        sum(timing.seconds for timing in by_step[step]) / work.batches_in(by_step[step]) for step in sorted(by_step)
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


class TranslationWork:
    """Segments of one translation model, as ids with end-of-sentence."""

    def __init__(
        self, model: Seq2SeqModel, segments: Sequence[Sequence[int]], *, num_beams: int = 1, batch_size: int = 32
    ) -> None:
        """Raises SpecError if the model has no cache."""
        model.check_cache(CachePolicy("on"))
        self._model = model
        self._segments = segments
        self._num_beams = num_beams
        self._batch_size = batch_size
        self._decoders = {mode: model.new_decoder(CachePolicy(mode)) for mode in MODES}

    @property
    def num_sequences(self) -> int:
        """Segments."""
        return len(self._segments)

    def check(self, num_tokens: int) -> None:
        longest, positions = max(map(len, self._segments), default=0), self._model.max_positions
        if not 2 <= num_tokens <= positions or not 1 <= longest <= positions:
            raise SpecError(
                f"sources of {longest} tokens and {num_tokens} target tokens were asked for; the model has "
                f"{positions} positions, and a target needs at least 2 tokens"
            )

    def run(self, mode: str, num_tokens: int, context: RunContext) -> list[tuple[int, ...]]:
        """Translate; end-of-sentence is forbidden before `num_tokens`."""
        rules = dataclasses.replace(
            self._model.generation, num_beams=self._num_beams, max_new_tokens=num_tokens, min_new_tokens=num_tokens
        )
        found = decode_all(self._decoders[mode], self._segments, rules, context, batch_size=self._batch_size)
        return [best.ids for best, *_ in found]

    def buffer_stats(self, mode: str) -> BufferStats:
        return self._decoders[mode].buffer_stats

    def step_of(self, timing: StepTiming) -> int | None:
        """The position, in the target, of the last token that a step reads: it is the same for all rows. The first step
        reads the start token."""
        if timing.phase not in DECODER_PHASES:
            return None
        return timing.past_length + timing.tokens // timing.rows - 1

    def batches_in(self, timings: Sequence[StepTiming]) -> int:
        """The number of the calls: each takes a step of one batch."""
        return len(timings)


class ContinuationWork:
    """Prompts of one length for one causal model, one batch of them."""

    def __init__(self, model: CausalModel, prompts: Sequence[Sequence[int]]) -> None:
        """Raises SpecError if the model has no cache."""
        self._model = model
        self._prompts = prompts
        self._generators = {mode: model.new_generator(CachePolicy(mode)) for mode in MODES}

    @property
    def num_sequences(self) -> int:
        """Prompts."""
        return len(self._prompts)

    def check(self, num_tokens: int) -> None:
        longest, positions = max(map(len, self._prompts), default=0), self._model.max_positions
        if num_tokens < 2 or longest < 1 or longest + num_tokens > positions + 1:
            raise SpecError(
                f"prompts of {longest} tokens and {num_tokens} new ones were asked for; the model has {positions} "
                "positions, and at least 2 new tokens are needed"
            )

    def run(self, mode: str, num_tokens: int, context: RunContext) -> list[tuple[int, ...]]:
        """Continue the prompts; no id ends a continuation."""
        rules = ContinuationRules(max_new_tokens=num_tokens)
        found: dict[int, tuple[int, ...]] = {}
        generator = self._generators[mode]
        for ended in generator.generate(self._prompts, rules, context, batch_size=len(self._prompts)):
            found |= {index: continuation.ids for index, continuation in ended}
        return [found[index] for index in range(len(self._prompts))]

    def buffer_stats(self, mode: str) -> BufferStats:
        return self._generators[mode].buffer_stats

    def step_of(self, timing: StepTiming) -> int | None:
        """The step of the timing; None for a call that reads prompts, which is no step."""
        return timing.step if timing.phase in ("decode", "head") else None

    def batches_in(self, timings: Sequence[StepTiming]) -> int:
        """Always 1: all prompts are one batch, and a step may need several calls."""
        return 1
