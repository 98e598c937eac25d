"""Tokens per second over the life of a job, with the documents that failed.

A short job is drawn from its batches, by seconds; a long one from the sums of its minutes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from jobs.store.report.job_summary import JobSummary
from jobs.store.report.timings.minutes import Interval, Intervals
from jobs.store.report.timings.recent_batches import BatchSummary
from jobs.tasks.kinds import KINDS
from jobs.text.formatting import counted, duration, figure, speed
from jobs.web.charts import Chart, Series
from jobs.web.job_page.bars import Bars, of_minutes, spread


@dataclass(frozen=True, slots=True)
class Point:
    """The tokens and documents of the batches that ended in an interval."""

    start: datetime
    tokens: float
    failed: float  # documents


def speed_chart(intervals: Intervals, batches: Sequence[BatchSummary], job: JobSummary) -> Chart:
    """`batches`: all of the job, or none where there are too many."""
    bars = _bars(intervals, batches, job.task)
    points = [Point(at, *two) for at, two in zip(bars.starts, bars.sums, strict=True)]
    speeds = [round(point.tokens / bars.width_s, 1) for point in points]
    failed = [round(point.failed) for point in points]
    series = [Series("tokens/s", speeds, "--series-1")]
    if any(failed):
        series.append(Series("documents that failed", failed, "--bad", "bar", is_on_right=True))
    return Chart(
        id="speed-chart",
        title="Tokens per second",
        sentence=_sentence(points, speeds, bars.width_s, job),
        shape="area",
        x_name=bars.x_name.replace("a bar", "a point"),
        y_name="tokens/s",
        x=[point.start.isoformat() for point in points],
        series=series if points else [],
        is_time=True,
        window=_window(points, job),
        right_name="documents" if any(failed) else "",
    )


def _window(points: Sequence[Point], job: JobSummary) -> tuple[str, str] | None:
    """The time in which the job has worked: one point alone has no width."""
    if not points:
        return None
    end = (job.paused_at if job.paused else None) or job.finished_at or job.read_at
    start = min(points[0].start, job.started_at or points[0].start)
    return start.isoformat(), max(points[-1].start, end).isoformat()


def _bars(intervals: Intervals, batches: Sequence[BatchSummary], task: str) -> Bars:
    """Tokens, and documents that failed."""

    def amounts(ended: Interval | BatchSummary) -> tuple[float, ...]:
        return _tokens(ended, task), float(ended.failed)

    has_times = any(batch.busy_s for batch in batches)
    return spread(batches, amounts) if has_times else of_minutes(intervals, amounts)


def _tokens(ended: Interval | BatchSummary, task: str) -> float:
    """The tokens by which the speed of a job is measured, as `JobSummary.tokens`."""
    return float(getattr(ended, KINDS[task].tokens))


def _sentence(points: Sequence[Point], speeds: Sequence[float], width_s: int, job: JobSummary) -> str:
    if not points:
        return "No result was recorded" + ("." if job.has_ended else " yet.")
    failed = round(sum(point.failed for point in points))
    trouble = f" {counted(failed, 'document')} failed." if failed else ""  # rejected lines came to no worker
    trouble += "" if job.has_ended else " What lanes have in hand is counted when it is recorded."
    average = f"{speed(job.tokens_per_s)} on average" if job.tokens_per_s else "No speed yet"
    if len(points) < 3:
        return f"{average}.{trouble}"
    inner = range(len(points) - 1)  # the last point may not be over
    best = max(inner, key=lambda at: speeds[at])
    form = "%H:%M:%S" if width_s < 60 else "%Y-%m-%d %H:%M"
    idle = sum(1 for at in inner if not points[at].tokens and not points[at].failed)
    pause = f" Nothing was processed for {duration(float(width_s * idle))} in all." if idle else ""
    return f"{average}, {figure(speeds[best])} at best ({points[best].start.astimezone():{form}}).{pause}{trouble}"
