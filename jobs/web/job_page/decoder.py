"""What a decoder step costs, by its number and by the cached positions it attends to; and how full its slots are.

With a KV cache a step computes one position of each row, however long the prefix is, so its cost hardly grows. Without
one it computes the whole prefix again.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from jobs.store.report.timings.steps import DecoderCalls
from jobs.store.schema.rollup_tables import LENGTHS_PER_ROW
from jobs.tasks.kinds import KINDS
from jobs.tasks.shared_options import Timing
from jobs.text.formatting import figure, percent
from jobs.web.charts import Chart, Series
from jobs.web.job_page.seconds import no_timings

MOST_POINTS = 150
END_SHARE = 0.15  # of the steps at either end, which are compared
GROWS = 1.5  # times the cost at the start: more than this is growth, less may be chance
FEWER_ROWS = 0.5  # of those at the start: a step with fewer rows is cheaper by itself, and not compared

Options = Mapping[str, Any]


def step_chart(steps: Sequence[DecoderCalls], task: str, options: Options) -> Chart:
    """Milliseconds of a decode call by its number."""
    is_known, points = len(steps) > 1, _points(steps)
    return Chart(
        id="steps-chart",
        title="Milliseconds of a decoder step, by its number",
        sentence=_step_sentence(steps, task, options),
        shape="line",
        x_name="number of the step in its batch",
        y_name="ms",
        x=[point.key for point in points] if is_known else [],
        series=[Series("a step", [round(point.mean_ms, 3) for point in points], "--phase-decode")] if is_known else [],
    )


def past_length_chart(lengths: Sequence[DecoderCalls], task: str, options: Options) -> Chart:
    """Milliseconds of a decode call by the cached positions that it attends to."""
    is_known = len(lengths) > 1
    return Chart(
        id="lengths-chart",
        title="Milliseconds of a decoder step, by cached positions",
        sentence=_length_sentence(lengths, task, options),
        shape="bar",
        x_name="cached positions",
        y_name="ms",
        x=[_range(calls) for calls in lengths] if is_known else [],
        series=[
            Series("a step", [round(calls.mean_ms, 3) for calls in lengths], "--phase-decode"),
            Series("a row of it", [round(calls.mean_ms / calls.mean_rows, 4) for calls in lengths], "--series-3"),
        ]
        if is_known
        else [],
    )


def slots_chart(steps: Sequence[DecoderCalls], task: str, options: Options) -> Chart:
    """Rows in flight in each decode call: how full the slots of a batch are."""
    is_known, points = len(steps) > 1, _points(steps)
    series = [Series("rows in flight", [round(point.mean_rows, 2) for point in points], "--series-3")]
    if slots := _slots(steps, options):
        series.append(Series("slots", [slots] * len(points), "--line-strong", "line"))
    return Chart(
        id="slots-chart",
        title="Rows in flight, by the number of the step",
        sentence=_slots_sentence(steps, task, options),
        shape="area",
        x_name="number of the step in its batch",
        y_name="rows",
        x=[point.key for point in points] if is_known else [],
        series=series if is_known else [],
    )


def _points(steps: Sequence[DecoderCalls]) -> list[DecoderCalls]:
    """The steps as they are drawn: of many, some neighbours together."""
    width = math.ceil(len(steps) / MOST_POINTS) or 1
    return [_sum(steps[at : at + width]) for at in range(0, len(steps), width)]


def _step_sentence(steps: Sequence[DecoderCalls], task: str, options: Options) -> str:
    if missing := _nothing_to_compare(steps, task, options):
        return missing
    full = _full_steps(steps)
    start, end = _ends(full)
    verdict = _verdict(str(options.get("cache", "auto")), end.mean_ms / start.mean_ms)
    costs = f"A step costs {figure(start.mean_ms)} ms at the start and {figure(end.mean_ms)}"
    if len(full) == len(steps):
        return f"{costs} ms at the end: {verdict}"
    return (
        f"{costs} ms at step {full[-1].key}, the last with half as many rows: {verdict} Later steps have fewer rows "
        "and cost less for that."
    )


def _verdict(cache: str, ratio: float) -> str:
    """What the growth from the first steps to the last says, given how the cache was set."""
    grows, how_much = ratio > GROWS, f"it grows {figure(ratio)}-fold"
    if cache == "off":
        if grows:
            return f"{how_much}, because the cache is off and each step computes the whole prefix again."
        return "it does not grow, though the cache is off; these texts are too short to show what a cache saves."
    if cache.startswith("hybrid:"):
        first = cache.removeprefix("hybrid:")
        how = "the cost grows" if grows else "the cost does not grow"
        return f"{how}; the first {first} steps compute the whole prefix, those after them use the cache."
    if grows:
        return f"{how_much}, although the cache is on."
    return "the cache works."


def _length_sentence(lengths: Sequence[DecoderCalls], task: str, options: Options) -> str:
    if missing := _nothing_to_compare(lengths, task, options, is_by_length=True):
        return missing
    first, last = lengths[0], lengths[-1]
    ratio = last.mean_ms / first.mean_ms
    how = "hardly more" if 1 < ratio <= GROWS else "no more" if ratio <= 1 else f"{figure(ratio)} times as much"
    rows = f"{figure(first.mean_rows)} and {figure(last.mean_rows)} rows"
    return (
        f"With {_range(first)} cached positions a step costs {figure(first.mean_ms)} ms, with {_range(last)} "
        f"{figure(last.mean_ms)} ms: {how} ({rows} on average)."
    )


def _slots_sentence(steps: Sequence[DecoderCalls], task: str, options: Options) -> str:
    if missing := _nothing_to_compare(steps, task, options):
        return missing
    slots = _slots(steps, options)
    mean = sum(step.rows for step in steps) / sum(step.calls for step in steps)
    fullest = max(step.mean_rows for step in steps)
    if not slots:
        return f"{figure(mean)} rows are in flight on average, {figure(fullest)} at most."
    return (
        f"{slots} slots, {figure(mean)} rows in flight on average: {percent(min(1.0, mean / slots))} full. "
        f"The fullest step has {figure(fullest)} rows."
    )


def _nothing_to_compare(
    calls: Sequence[DecoderCalls], task: str, options: Options, *, is_by_length: bool = False
) -> str | None:
    """Why there is nothing to compare, in a sentence; None if there is."""
    if not KINDS[task].text:
        return "This task reads known tokens and generates none, so it has no decoder steps."
    timing = str(options.get("timing", Timing.STEPS))
    if is_by_length and options.get("cache") == "off":
        return "The cache is off, so no step attends to cached positions."
    if timing == Timing.BATCHES:
        return "Durations are summed by batch (--timing batches), so single steps are not known."
    if not calls:
        return no_timings(timing) if timing == Timing.OFF else "No decoder step was recorded yet."
    if len(calls) == 1:
        where = f"attended to {_range(calls[0])} cached positions" if is_by_length else "has the same number"
        return f"Every step {where} and cost {figure(calls[0].mean_ms)} ms, so there is nothing to compare."
    return None


def _full_steps(steps: Sequence[DecoderCalls]) -> Sequence[DecoderCalls]:
    """The steps up to the last one with enough rows to be compared with the first ones."""
    number = max(1, math.ceil(END_SHARE * len(steps)))
    enough = FEWER_ROWS * _sum(steps[:number]).mean_rows
    last = max((at for at, step in enumerate(steps) if step.mean_rows >= enough), default=0)
    return steps[: max(last + 1, 2)]


def _ends(steps: Sequence[DecoderCalls]) -> tuple[DecoderCalls, DecoderCalls]:
    """The calls of the first and of the last steps, each summed."""
    number = max(1, math.ceil(END_SHARE * len(steps)))
    return _sum(steps[:number]), _sum(steps[-number:])


def _sum(steps: Sequence[DecoderCalls]) -> DecoderCalls:
    return DecoderCalls(
        steps[0].key,
        sum(step.calls for step in steps),
        sum(step.rows for step in steps),
        sum(step.seconds for step in steps),
    )


def _slots(steps: Sequence[DecoderCalls], options: Options) -> int:
    """Rows that fit into a call: `batch_size` times the beams. Where the model decides about beams, as many as the
    fullest call shows; 0 where nothing is known, or where the engine chose the size."""
    size = options.get("batch_size")
    if not size or not steps:
        return 0
    beams = options.get("beam_size") or math.ceil(max(step.mean_rows for step in steps) / size)
    return int(size * beams)


def _range(calls: DecoderCalls) -> str:
    return f"{calls.key}-{calls.key + LENGTHS_PER_ROW - 1}"
