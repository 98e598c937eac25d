"""/metrics for Prometheus, and /healthz, which proves progress: not only that somebody answers.

Metrics are in the text format of Prometheus, 0.0.4: families of samples, each with its help, its type and its labels.
deploy/ has a dashboard and alert rules over their names; a test compares them.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Literal

import anyio
from fastapi import APIRouter, Query, Request
from starlette.responses import PlainTextResponse, Response

from jobs import __version__
from jobs.errors import KvjobsError
from jobs.store.database import Database
from jobs.store.report.metrics import Metrics, read_metrics
from jobs.store.report.waiting_work import check_progress
from jobs.text.formatting import visible
from jobs.web.parameters import Reading, SettingsOfApp
from jobs.web.rendering import JsonResponse

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Sample:
    """A number, and the labels that say what it counts."""

    value: float
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Family:
    """A metric: its name, its type, and its samples."""

    name: str  # with its unit; a counter ends in _total
    kind: Literal["gauge", "counter"]
    help: str
    samples: Sequence[Sample]


def exposition(families: Iterable[Family]) -> str:
    """All families, as a scrape reads them. A family without samples keeps its help: it says that there are none."""
    return "".join(line + "\n" for family in families for line in _lines(family))


def _lines(family: Family) -> Iterator[str]:
    explained = family.help.replace("\\", r"\\").replace("\n", r"\n")
    yield f"# HELP {family.name} {explained}"
    yield f"# TYPE {family.name} {family.kind}"
    for sample in family.samples:
        labels = ",".join(f'{name}="{_escaped(value)}"' for name, value in sample.labels.items())
        yield (
            f"{family.name}{{{labels}}} {_number(sample.value)}" if labels else f"{family.name} {_number(sample.value)}"
        )


@lru_cache(maxsize=4096)  # the same few values stand in thousands of lines
def _escaped(value: str) -> str:
    """A label's value: what could hide is made visible first, since names come from people."""
    return visible(value).replace("\\", r"\\").replace('"', r"\"")


def _number(value: float) -> str:
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return "NaN" if math.isnan(value) else repr(value)


# Attributes of JobSummary.
OUTCOMES = ("succeeded", "rejected", "failed", "quarantined", "cancelled", "skipped", "waiting")
WORKER_STATES = ("busy", "idle", "paused", "draining", "stale", "killed")


def families(metrics: Metrics) -> Iterator[Family]:
    """Every metric, also those without a sample now."""
    yield Family("kvjobs_build_info", "gauge", "Version of kvjobs that answers.", [Sample(1, {"version": __version__})])
    yield from _job_metrics(metrics)
    yield from _worker_metrics(metrics)
    yield from _waiting_metrics(metrics)
    size = [Sample(metrics.database_bytes, {})]
    yield Family("kvjobs_database_size_bytes", "gauge", "Size of the database on disk.", size)
    help_text = "Recorded batches that are not folded into the sums of their jobs; some hundred are usual."
    yield Family("kvjobs_unfolded_batches", "gauge", help_text, [Sample(metrics.unfolded, {})])


def _job_metrics(metrics: Metrics) -> Iterator[Family]:
    jobs = metrics.jobs
    yield Family(
        "kvjobs_job_info",
        "gauge",
        "Always 1: a job that is open or ended in the last day, for joins on the label job_id.",
        [
            Sample(
                1,
                {
                    "job_id": str(job.job_id),
                    "name": job.name or "",
                    "task": job.task,
                    "model": job.model,
                    "queue": job.queue,
                    "state": job.shown_state,
                },
            )
            for job in jobs
        ],
    )
    yield Family(
        "kvjobs_job_documents",
        "gauge",
        "Documents of a job by what became of them.",
        [
            Sample(getattr(job, outcome), {"job_id": str(job.job_id), "state": outcome})
            for job in jobs
            for outcome in OUTCOMES
        ],
    )
    yield Family(
        "kvjobs_job_tokens_total",
        "counter",
        "Tokens that a job has processed: of its sources, and generated or scored ones (target).",
        [
            Sample(tokens, {"job_id": str(job.job_id), "side": side})
            for job in jobs
            for side, tokens in (("source", job.source_tokens), ("target", job.target_tokens))
        ],
    )
    yield Family(
        "kvjobs_job_estimated_tokens_left",
        "gauge",
        "Tokens of the documents of a job that wait, as estimated at submit.",
        [Sample(job.estimated_left, {"job_id": str(job.job_id)}) for job in jobs],
    )
    yield Family(
        "kvjobs_job_phase_seconds_total",
        "counter",
        "Seconds of a phase of a job, summed over all lanes, which run side by side.",
        [Sample(phase.seconds, {"job_id": str(phase.job_id), "phase": phase.phase}) for phase in metrics.phases],
    )
    yield Family(
        "kvjobs_job_phase_calls_total",
        "counter",
        "Model calls, or other phases, that were timed.",
        [Sample(phase.calls, {"job_id": str(phase.job_id), "phase": phase.phase}) for phase in metrics.phases],
    )
    yield Family(
        "kvjobs_job_failed_documents",
        "gauge",
        "Documents of a job without a result, by the code of the error; a retry takes them away.",
        [
            Sample(failure.documents, {"job_id": str(failure.job_id), "status": failure.status, "code": failure.code})
            for failure in metrics.failures
        ],
    )
    yield Family(
        "kvjobs_job_flagged_documents",
        "gauge",
        "Documents of a job whose result has a flag; one with two flags counts for both.",
        [
            Sample(documents, {"job_id": str(job.job_id), "flag": flag})
            for job in jobs
            for flag, documents in job.flags.items()
        ],
    )


def _worker_metrics(metrics: Metrics) -> Iterator[Family]:
    states = [worker.state for worker in metrics.workers]
    alive = [worker for worker in metrics.workers if worker.is_alive]
    yield Family(
        "kvjobs_workers",
        "gauge",
        "Workers that have not stopped; stale: without a heartbeat for the length of a lease; killed: not yet noted.",
        [Sample(states.count(state), {"state": state}) for state in WORKER_STATES],
    )
    at_work = sum(len(worker.shards) for worker in alive)
    lanes = sum(worker.lanes for worker in alive)
    yield Family(
        "kvjobs_lanes",
        "gauge",
        "Lanes of the workers that are alive, by whether they have a shard.",
        [Sample(at_work, {"state": "busy"}), Sample(max(0, lanes - at_work), {"state": "idle"})],
    )
    kv_bytes = sum(worker.kv_bytes for worker in alive)
    help_text = "Buffers for keys and values of the workers that are alive."
    yield Family("kvjobs_kv_cache_bytes", "gauge", help_text, [Sample(kv_bytes, {})])


def _waiting_metrics(metrics: Metrics) -> Iterator[Family]:
    waiting = {work.queue: work for work in metrics.waiting}
    queues = sorted({*waiting, *(job.queue for job in metrics.jobs)})  # 0 where nothing waits, so that no line has gaps
    yield Family(
        "kvjobs_waiting_shards",
        "gauge",
        "Shards that could be leased now: of jobs that run and are neither paused nor cancelled.",
        [Sample(waiting[queue].shards if queue in waiting else 0, {"queue": queue}) for queue in queues],
    )
    yield Family(
        "kvjobs_oldest_waiting_shard_seconds",
        "gauge",
        "For how long the oldest of them has been ready.",
        [Sample(round(waiting[queue].oldest_s, 3) if queue in waiting else 0, {"queue": queue}) for queue in queues],
    )


MAX_WAIT_S = 120.0
A_YEAR_S = 366 * 86_400
# /healthz has threads of its own: pages that take long do not keep it waiting, and many who ask do not keep pages.
_threads = anyio.CapacityLimiter(2)

router = APIRouter()


@router.get("/metrics")
def metrics(connection: Reading, settings: SettingsOfApp) -> Response:
    read = read_metrics(connection, settings.lease_s)
    return PlainTextResponse(exposition(families(read)), media_type=CONTENT_TYPE)


@router.get("/healthz")
async def health(
    request: Request, max_wait: Annotated[float, Query(alias="max-wait", gt=0, le=A_YEAR_S)] = MAX_WAIT_S
) -> Response:
    """200 while the database answers and work that waits is taken, else 503 with the reason. Whoever reaches the
    address may ask, so the answer names neither the database nor a job."""
    return await anyio.to_thread.run_sync(_health, request.app.state.database, max_wait, limiter=_threads)


def _health(database: Database, max_wait: float) -> Response:
    try:
        with database.reading() as connection:
            progress = check_progress(connection, max_wait)
    except KvjobsError:
        return JsonResponse({"status": "unavailable", "sentence": "The database does not answer."}, 503)
    status = "stuck" if progress.is_stuck else "ok"
    return JsonResponse({"status": status, "sentence": progress.sentence}, 503 if progress.is_stuck else 200)
