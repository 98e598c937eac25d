"""
What the KV cache saves: the same segments are decoded with the cache and without it, in turns, and timed.

Knows: one model, segments as ids. Prints nothing.
"""

import dataclasses
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

from jobs.errors import SpecError
from jobs.outcome import StepTiming
from jobs.spec import CachePolicy
from worker.engine.runtime.run_context import RunContext
from worker.engine.search.generation_config import GenerationConfig
from worker.engine.seq2seq.protocol import Decoder, Seq2SeqModel, decode_all


@dataclass(frozen=True, slots=True)
class DecodingSpeed:
    """How fast the segments were decoded, with the cache or without it: medians over the repeats."""

    seconds: float  # from segments to ids, everything included
    decode_s: float  # the part of `seconds` spent in decoder calls
    seconds_per_step: float  # mean time of a decoder step of one batch, without its first step
    early_s: float  # mean time of a step in the first quarter of the steps
    late_s: float  # mean time of a step in the last quarter
    tokens_per_second: float  # generated tokens per second of `seconds`

    @property
    def growth(self) -> float:
        """`late_s` / `early_s`: 1 where the time of a step does not depend on the tokens generated before it."""
        return self.late_s / self.early_s


@dataclass(frozen=True, slots=True)
class CacheReport:
    """Decoding with the cache and without it: the same segments, the same number of target tokens."""

    num_segments: int
    num_beams: int
    target_tokens: int  # per segment; forced, so that both runs take the same number of steps
    batch_size: int
    repeats: int
    on: DecodingSpeed
    off: DecodingSpeed
    num_different: int  # segments whose ids differ with and without the cache
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


def measure_cache(
    model: Seq2SeqModel,
    segments: Sequence[Sequence[int]],
    *,
    target_tokens: int,
    num_beams: int = 1,
    batch_size: int = 32,
    repeats: int = 3,
    warm_up: bool = True,
) -> CacheReport:
    """Decode `segments` (ids, end-of-sentence included) with the cache on and off, alternately.

    Every hypothesis is `target_tokens` long: end-of-sentence is forbidden before that length. Raises SpecError if the
    model has no cache, or if the lengths do not fit the model's positions.
    """
    model.check_cache(CachePolicy("on"))
    longest = max(map(len, segments), default=0)
    if not 2 <= target_tokens <= model.max_positions or not 1 <= longest <= model.max_positions:
        raise SpecError(
            f"sources of {longest} tokens and {target_tokens} target tokens were asked for; the model has "
            f"{model.max_positions} positions, and a target needs at least 2 tokens"
        )
    rules = dataclasses.replace(
        model.generation, num_beams=num_beams, max_new_tokens=target_tokens, min_new_tokens=target_tokens
    )
    decoders = {mode: model.new_decoder(CachePolicy(mode)) for mode in ("on", "off")}
    if warm_up:
        short = dataclasses.replace(rules, max_new_tokens=2, min_new_tokens=2)
        for decoder in decoders.values():
            _decode(decoder, segments[:batch_size], short, batch_size)
    runs: dict[str, list[DecodingSpeed]] = {"on": [], "off": []}
    ids: dict[str, list[tuple[int, ...]]] = {}
    for repeat in range(repeats):
        for mode in ("on", "off") if repeat % 2 == 0 else ("off", "on"):
            started = time.perf_counter()
            found, timings = _decode(decoders[mode], segments, rules, batch_size)
            runs[mode].append(_summary(timings, time.perf_counter() - started, sum(map(len, found))))
            ids[mode] = found
    buffers = decoders["on"].buffer_stats
    return CacheReport(
        num_segments=len(segments),
        num_beams=num_beams,
        target_tokens=target_tokens,
        batch_size=batch_size,
        repeats=repeats,
        on=_median(runs["on"]),
        off=_median(runs["off"]),
        num_different=sum(one != other for one, other in zip(ids["on"], ids["off"], strict=True)),
        kv_bytes=buffers.num_bytes,
        buffer_allocations=buffers.allocations,
        buffer_reuses=buffers.reuses,
    )


def _decode(
    decoder: Decoder, segments: Sequence[Sequence[int]], rules: GenerationConfig, batch_size: int
) -> tuple[list[tuple[int, ...]], list[StepTiming]]:
    """The best ids of each segment, in order, and the time of each model call."""
    run = RunContext()
    found = decode_all(decoder, segments, rules, run, batch_size=batch_size)
    return [best.ids for best, *_ in found], run.timings


def _summary(timings: Sequence[StepTiming], seconds: float, num_tokens: int) -> DecodingSpeed:
    steps = [(timing.seconds, position) for timing in timings if (position := _position(timing))]
    last = max(position for _, position in steps)  # the same for every sentence: all targets are equally long
    quarter = max(1, last // 4)
    return DecodingSpeed(
        seconds=seconds,
        decode_s=sum(timing.seconds for timing in timings if timing.phase != "encode"),
        seconds_per_step=statistics.fmean(seconds for seconds, _ in steps),
        early_s=statistics.fmean(seconds for seconds, position in steps if position <= quarter),
        late_s=statistics.fmean(seconds for seconds, position in steps if position > last - quarter),
        tokens_per_second=num_tokens / seconds,
    )


def _position(timing: StepTiming) -> int:
    """The position, in the target, of the last token that this step reads; 0 for a decoder's first step, which reads
    the start token, and for an encoder call.

    One number holds for all rows of a step: they begin together and are forced to the same length.
    """
    if timing.phase == "encode":
        return 0
    return timing.past_length + timing.tokens // timing.rows - 1


def _median(runs: Sequence[DecodingSpeed]) -> DecodingSpeed:
    return DecodingSpeed(
        *(statistics.median(getattr(run, field.name) for run in runs) for field in dataclasses.fields(DecodingSpeed))
    )
