"""
What the KV cache is worth: the same segments with the cache and without, measured in turns.

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
class Measured:
    """One way of decoding: medians over the repeats."""

    seconds: float  # from segments to ids, everything included
    decode_s: float  # of that, in the decoder
    seconds_per_step: float  # a decoder step of one batch, the first step left out
    early_s: float  # a step in the first quarter of the steps
    late_s: float  # a step in the last quarter
    tokens_per_second: float  # generated tokens by `seconds`

    @property
    def growth(self) -> float:
        """A late step by an early one: 1 where a step costs the same however much was said before."""
        return self.late_s / self.early_s


@dataclass(frozen=True, slots=True)
class CacheReport:
    """The cache on and off, with the same segments and the same number of target tokens."""

    num_segments: int
    num_beams: int
    target_tokens: int  # of each segment: forced, so that both ways take the same steps
    batch_size: int
    repeats: int
    on: Measured
    off: Measured
    num_different: int  # segments whose ids differ between the two ways
    kv_bytes: int  # the buffers with the cache on, those of a step included
    buffer_allocations: int
    buffer_reuses: int

    @property
    def ratio(self) -> float:
        """How many times as fast with the cache."""
        return self.off.seconds / self.on.seconds

    @property
    def is_equal(self) -> bool:
        """Whether both ways gave the same ids, token for token."""
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

    Every hypothesis is `target_tokens` long: end-of-sentence is forbidden before. Raises SpecError for a model that
    has no cache, or where the lengths do not fit its positions.
    """
    model.check_cache(CachePolicy("on"))
    longest = max(map(len, segments), default=0)
    if not 2 <= target_tokens <= model.max_positions or not 1 <= longest <= model.max_positions:
        raise SpecError(
            f"sources of {longest} tokens and {target_tokens} target tokens were asked for; the model has "
            f"{model.max_positions} positions, and a target takes 2 tokens at least"
        )
    rules = dataclasses.replace(
        model.generation, num_beams=num_beams, max_new_tokens=target_tokens, min_new_tokens=target_tokens
    )
    decoders = {mode: model.new_decoder(CachePolicy(mode)) for mode in ("on", "off")}
    if warm_up:
        short = dataclasses.replace(rules, max_new_tokens=2, min_new_tokens=2)
        for decoder in decoders.values():
            _decode(decoder, segments[:batch_size], short, batch_size)
    runs: dict[str, list[Measured]] = {"on": [], "off": []}
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


def _summary(timings: Sequence[StepTiming], seconds: float, num_tokens: int) -> Measured:
    steps = [(timing.seconds, place) for timing in timings if (place := _place(timing))]
    last = max(place for _, place in steps)  # of each sentence: all are equally long
    quarter = max(1, last // 4)
    return Measured(
        seconds=seconds,
        decode_s=sum(timing.seconds for timing in timings if timing.phase != "encode"),
        seconds_per_step=statistics.fmean(seconds for seconds, _ in steps),
        early_s=statistics.fmean(seconds for seconds, place in steps if place <= quarter),
        late_s=statistics.fmean(seconds for seconds, place in steps if place > last - quarter),
        tokens_per_second=num_tokens / seconds,
    )


def _place(timing: StepTiming) -> int:
    """How many tokens came before in each row. Rows of a step are equally far: all begin together, all are forced to
    the same length."""
    if timing.phase == "encode":
        return 0
    return timing.past_length + timing.tokens // timing.rows - 1


def _median(runs: Sequence[Measured]) -> Measured:
    return Measured(
        *(statistics.median(getattr(run, field.name) for run in runs) for field in dataclasses.fields(Measured))
    )
