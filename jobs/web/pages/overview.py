"""/: what runs now, how fast, what waits, and whether somebody serves it."""

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter
from sqlalchemy import Connection

from jobs.store.report.job_lines import JobLine, list_job_lines
from jobs.store.report.timings.minutes import MinuteOfWork, work_by_minute
from jobs.store.report.waiting_work import WaitingShard, oldest_waiting_shard
from jobs.store.report.worker_list import WorkerSummary, list_workers
from jobs.store.schema.states import ENDED_STATES, JobState
from jobs.text.formatting import counted, duration, figure, speed
from jobs.web.charts import Chart, Series
from jobs.web.live import list_stamp
from jobs.web.parameters import Reading, SettingsOfApp
from jobs.web.rendering import add_page
from jobs.web.unserved_work import unserved_work

MINUTES = 60
RECENT = 5
OPEN = ("ingesting", "running", "waiting", "awaiting", "paused", "cancelling")
MAX_OPEN = 50

router = APIRouter()


def overview(connection: Reading, settings: SettingsOfApp) -> dict[str, Any]:
    running = list_job_lines(connection, settings.lease_s, states=OPEN, limit=MAX_OPEN)
    workers = list_workers(connection, settings.lease_s)
    work = work_by_minute(connection, MINUTES)
    oldest = oldest_waiting_shard(connection)
    return {
        "sentence": _sentence(running, workers, oldest),
        "tiles": _tiles(running, workers, work),
        "running": running,
        "recent": _ended(connection, settings.lease_s),
        "unserved": unserved_work(connection, settings.lease_s),
        "stamp": list_stamp(connection, settings.lease_s),
        "oldest": oldest,
        "workers": workers,
        "throughput": throughput_chart(work),
    }


def _ended(connection: Connection, silence_s: float) -> list[JobLine]:
    """The newest lines of which every job has ended; a chain of which a stage has ended may be open."""
    found = list_job_lines(connection, silence_s, states=ENDED_STATES, limit=2 * RECENT)
    return [line for line in found if line.shown_state in ENDED_STATES][:RECENT]


def throughput_chart(work: Sequence[MinuteOfWork]) -> Chart:
    """Tokens per second, minute by minute."""
    busy = [minute for minute in work[:-1] if minute.documents]
    if not busy:
        sentence = f"Nothing was recorded in the last {len(work)} minutes."
    else:
        speeds = [minute.target_tokens / 60 for minute in busy]
        documents = sum(minute.documents for minute in busy)
        sentence = (
            f"{counted(documents, 'document')} in {counted(len(busy), 'minute')} with results; "
            f"{speed(sum(speeds) / len(speeds))} on average in these, {figure(max(speeds))} at most."
        )
    return Chart(
        id="throughput",
        title="Tokens per second",
        sentence=sentence,
        shape="area",
        x_name="minute",
        y_name="tokens/s",
        x=[minute.minute.isoformat() for minute in work],
        series=[Series("generated or scored", [round(minute.target_tokens / 60, 1) for minute in work], "--series-1")],
        is_time=True,
    )


def _tiles(
    running: Sequence[JobLine], workers: Sequence[WorkerSummary], work: Sequence[MinuteOfWork]
) -> list[dict[str, Any]]:
    states = [worker.state for worker in workers]
    last = work[-2] if len(work) > 1 else work[-1]
    not_ok = sum(job.counts.not_ok for job in running)
    return [
        {"name": "Open jobs", "value": len(running), "href": "/jobs?state=open"},
        {
            "name": "Documents waiting",
            "value": sum(stage.waiting for job in running for stage in job.stages),
            "href": "/jobs?state=open",
        },
        {"name": "Tokens/s, last minute", "value": round(last.target_tokens / 60), "href": "#throughput"},
        {"name": "Workers busy", "value": states.count("busy"), "of": len(states), "href": "/workers"},
        {"name": "Not ok", "value": not_ok, "is_bad": bool(not_ok), "href": "/jobs?state=open"},
    ]


def _sentence(running: Sequence[JobLine], workers: Sequence[WorkerSummary], oldest: WaitingShard | None) -> str:
    """What somebody who has five seconds wants to know."""
    alive = sum(worker.is_alive for worker in workers)
    stale = sum(worker.state == "stale" for worker in workers)
    at_work = [job for job in running if job.shown_state == JobState.RUNNING]
    if not running:
        sentence = "No job is open."
    elif not at_work:
        sentence = f"{counted(len(running), 'job')} open, none of them running."
    else:
        left = [job.eta_s for job in at_work if job.eta_s is not None]
        sentence = f"{counted(len(at_work), 'job')} running" + (
            f", the longest for about {duration(max(left))} more." if left else "."
        )
    if oldest and alive and oldest.waits_s > 60:
        sentence += f" The oldest shard has waited for {duration(oldest.waits_s)} (job {oldest.job_id})."
    if stale:
        sentence += f" {counted(stale, 'worker')} without a heartbeat."
    return sentence


add_page(router, "/", "overview.html", overview)
