"""Where the seconds of a job went: by phase, overall and over time."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from jobs.outcome import MODEL_PHASES, TERMS, VIA
from jobs.store.report.timings.minutes import Interval, Intervals
from jobs.store.report.timings.recent_batches import BatchSummary
from jobs.store.report.timings.steps import StepSummary
from jobs.tasks.shared_options import Timing
from jobs.text.formatting import counted, duration, percent
from jobs.web.charts import Chart, Series
from jobs.web.job_page.bars import Bars, of_minutes, spread

MEANINGS = {
    "encode": "the encoder reads sources",
    "prefill": "the first call over a prompt or a prefix",
    "decode": "the decoder makes a token of each row",
    "head": "log-probabilities of known tokens",
    "request": "a provider's server answers",
    "wait": "a pause before a request is sent again",
    "segment": "text is split into sentences",
    "tokenize": "text becomes ids",
    "detokenize": "ids become text",
    "queue": "a lease is taken",
    "record": "results are written to the database",
}
_PARTS = {VIA: "by the first of two models", TERMS: "once more, of sentences that lack terms"}


@dataclass(frozen=True, slots=True)
class PhaseShare:
    """One phase, and where its part of the bar of all phases begins."""

    name: str
    meaning: str
    color: str  # the phase whose colour it has
    seconds: float
    share: float
    offset: float  # shares of the phases before it
    calls: int
    mean_ms: float
    mean_rows: float
    is_model: bool


def phase_shares(phases: Sequence[StepSummary]) -> list[PhaseShare]:
    """The phases with the most seconds first, as the summary has them; not the stages, which are parts of others."""
    shares, offset = [], 0.0
    for phase in (phase for phase in phases if not phase.is_stage):
        shares.append(
            PhaseShare(
                name=phase.group,
                meaning=_meaning(phase.group),
                color=_without_part(phase.group),
                seconds=phase.seconds,
                share=phase.share,
                offset=offset,
                calls=phase.calls,
                mean_ms=phase.mean_ms,
                mean_rows=phase.mean_rows,
                is_model=phase.group in MODEL_PHASES,
            )
        )
        offset += phase.share
    return shares


def _meaning(phase: str) -> str:
    meaning = MEANINGS.get(_without_part(phase), "")
    part = next((words for part, words in _PARTS.items() if phase.endswith(part)), "")
    return f"{meaning}; {part}" if part else meaning


def _without_part(phase: str) -> str:
    return phase.removesuffix(VIA).removesuffix(TERMS)


def phases_sentence(phases: Sequence[StepSummary], timing: str, elapsed_s: float | None) -> str:
    """Which phase takes the time, and how much of it the model works."""
    if not phases:
        return no_timings(timing)
    whole = [phase for phase in phases if not phase.is_stage]
    total = sum(phase.seconds for phase in whole)
    largest = [f"{phase.group} takes {percent(phase.share)}" for phase in whole[:2] if phase.share >= 0.005]
    model = sum(phase.share for phase in phases if phase.group in MODEL_PHASES)
    sentence = (
        f"{largest[0][0].upper()}{' and '.join(largest)[1:]} of the time; model calls are {percent(model)} of it."
    )
    stages = sorted((phase for phase in phases if phase.is_stage), key=lambda phase: phase.group)
    if stages:
        shares = ", ".join(f"{stage.group.replace('.', ' ')} {percent(stage.share)}" for stage in stages)
        sentence += f" Within them, the stages of the model take: {shares}."
    if elapsed_s and total > elapsed_s * 1.05:
        sentence += f" Lanes work side by side: {duration(total)} of work in {duration(elapsed_s)}."
    return sentence


def no_timings(timing: str) -> str:
    """Why there are no timings."""
    if timing == Timing.OFF:
        return "The job was submitted with --timing off, so no durations are stored."
    return "No durations are stored yet."


def seconds_over_time(intervals: Intervals, batches: Sequence[BatchSummary]) -> Chart:
    """How many lanes worked on average, in bars of equal width over the whole job.

    `batches`: all of the job, each of which is spread over the time that it took; or none where there are too many.
    Then the bars are `intervals`, where a batch has all its seconds at its end, also those before the bar: they are
    some batches wide (`jobs.web.job_page.bars`), so that this is not visible.
    """
    bars = _bars(intervals, batches)
    width = bars.width_s
    return Chart(
        id="seconds-chart",
        title="Seconds of work per second",
        sentence=_over_time_sentence(bars, is_about=not batches),
        shape="stack",
        x_name=bars.x_name,
        y_name="s of work per s",
        x=bars.names,
        series=[
            Series("model calls", [round(model / width, 3) for model, _ in bars.sums], "--phase-decode"),
            Series("other phases", [round(other / width, 3) for _, other in bars.sums], "--phase-tokenize"),
        ]
        if bars.sums
        else [],
    )


def _bars(intervals: Intervals, batches: Sequence[BatchSummary]) -> Bars:
    """Seconds of model calls, and all others."""

    def amounts(worked: Interval | BatchSummary) -> tuple[float, float]:
        return worked.model_s, worked.busy_s - worked.model_s

    if batches or not any(interval.busy_s for interval in intervals.all):
        return spread(batches, amounts)
    return of_minutes(intervals, amounts)


def _over_time_sentence(bars: Bars, *, is_about: bool) -> str:
    """`is_about`: a bar may have the seconds of a batch that began before it, hence more than its lanes can work."""
    if not bars.sums:
        return "No batch with durations was recorded."
    model, other = (math.fsum(column) for column in zip(*bars.sums, strict=True))
    top = max(map(sum, bars.sums)) / bars.width_s
    lanes = f"about {counted(round(top), 'lane')}" if is_about and top >= 1 else f"{top:.1f} lanes"
    return (
        f"{duration(model + other)} of work in the whole job, {percent(model / (model + other))} of it in model calls; "
        f"up to {lanes} worked at a time."
    )
