"""Tokens per second over the life of a job, with the documents that failed.

A short job is drawn from its batches, by seconds; a long one from the sums of its minutes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from jobs.formatting import counted, duration
from jobs.spec import Task
from jobs.store.report.job_summary import JobSummary
from jobs.store.report.timings.minutes import MOST_MINUTES, JobMinute
from jobs.store.report.timings.recent_batches import BatchSummary
from jobs.web.charts import Chart, Series
from jobs.web.job_page.bars import spread

MOST_POINTS = 180
WIDTHS_MIN = (1, 2, 5, 10, 15, 30, 60, 120, 240, 480, 1440, 10080)  # minutes that one point may sum up


@dataclass(frozen=True, slots=True)
class Point:
    """What ended in an interval."""

    start: datetime
    tokens: float
    failed: float  # documents


def speed_chart(minutes: Sequence[JobMinute], batches: Sequence[BatchSummary], job: JobSummary) -> Chart:
    """`batches`: all of the job, or none where there are too many."""
    has_times = any(batch.busy_s for batch in batches)
    points, width_s, x_name = _of_batches(batches, job.task) if has_times else _of_minutes(minutes, job.task)
    speeds = [round(point.tokens / width_s, 1) for point in points]
    failed = [round(point.failed) for point in points]
    older = f" Only the newest {MOST_MINUTES:,} minutes are drawn." if len(minutes) == MOST_MINUTES else ""
    series = [Series("tokens/s", speeds, "--series-1")]
    if any(failed):
        series.append(Series("documents that failed", failed, "--bad", "bar", is_on_right=True))
    return Chart(
        id="speed-chart",
        title="Tokens per second",
        sentence=_sentence(points, speeds, width_s, job) + older,
        shape="area",
        x_name=x_name,
        y_name="tokens/s",
        x=[point.start.isoformat() for point in points],
        series=series if points else [],
        is_time=True,
        right_name="documents" if any(failed) else "",
    )


def _of_batches(batches: Sequence[BatchSummary], task: str) -> tuple[list[Point], int, str]:
    """One point a bar, its width in seconds, and the name of the axis."""
    bars = spread(batches, lambda batch: (_tokens(batch, task), float(batch.failed)))
    points = [Point(at, *two) for at, two in zip(bars.starts, bars.sums, strict=True)]
    return points, bars.width_s, bars.x_name.replace("a bar", "a point")


def _of_minutes(minutes: Sequence[JobMinute], task: str) -> tuple[list[Point], int, str]:
    """One point for each `width` minutes from the first to the last, also where nothing ended."""
    if not minutes:
        return [], 60, "time"
    first = minutes[0].minute
    total = (minutes[-1].minute - first).total_seconds() / 60 + 1
    width = next((width for width in WIDTHS_MIN if total / width <= MOST_POINTS), WIDTHS_MIN[-1])
    tokens, failed = [[0.0] * (int((total - 1) // width) + 1) for _ in range(2)]
    for one in minutes:
        at = int((one.minute - first).total_seconds() // 60 // width)
        tokens[at] += _tokens(one, task)
        failed[at] += one.failed
    starts = [first + timedelta(minutes=width * at) for at in range(len(tokens))]
    points = [Point(*three) for three in zip(starts, tokens, failed, strict=True)]
    return points, 60 * width, f"time, {width} min a point"


def _tokens(ended: JobMinute | BatchSummary, task: str) -> float:
    """The tokens by which the speed of a job is measured, as `JobSummary.tokens`."""
    return float(ended.source_tokens if task == Task.RERANK else ended.target_tokens)


def _sentence(points: Sequence[Point], speeds: Sequence[float], width_s: int, job: JobSummary) -> str:
    if not points:
        return "No result was recorded" + ("." if job.has_ended else " yet.")
    failed = round(sum(point.failed for point in points))
    trouble = f" {counted(failed, 'document')} failed." if failed else " No document failed."
    trouble += "" if job.has_ended else " What lanes have in hand is counted when it is recorded."
    average = f"{job.tokens_per_s:,.0f} tokens/s on average" if job.tokens_per_s else "No speed yet"
    if len(points) < 3:
        return f"{average}.{trouble}"
    inner = range(len(points) - 1)  # the last point may not be over
    best = max(inner, key=lambda at: speeds[at])
    form = "%H:%M:%S" if width_s < 60 else "%Y-%m-%d %H:%M"
    idle = sum(1 for at in inner if not points[at].tokens and not points[at].failed)
    pause = f" Nothing was processed for {duration(float(width_s * idle))} in all." if idle else ""
    return f"{average}, {speeds[best]:,.0f} at best ({points[best].start.astimezone():{form}}).{pause}{trouble}"
