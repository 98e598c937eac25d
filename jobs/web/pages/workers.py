"""/workers: who serves which queues, with which models warm, and what each lane does now."""

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query

from jobs.control.actions import REQUESTS, actions_of_worker, worker_message
from jobs.store.report.job_summary import LARGEST_ID
from jobs.store.report.worker_list import WorkerSummary, list_workers
from jobs.store.schema.states import WorkerRequest
from jobs.text.formatting import counted, size
from jobs.web.parameters import Reading, SettingsOfApp
from jobs.web.rendering import add_page
from jobs.web.unserved_work import unserved_work

A_PAGE = 50

router = APIRouter()


def workers(
    connection: Reading,
    settings: SettingsOfApp,
    stopped: bool = False,
    before: Annotated[int | None, Query(ge=1, le=LARGEST_ID)] = None,
    asked: Annotated[int | None, Query(ge=1, le=LARGEST_ID)] = None,
) -> dict[str, Any]:
    """`asked`: the number of the worker that was just asked to pause, resume or drain."""
    found = list_workers(connection, settings.lease_s, everything=stopped, before=before, limit=A_PAGE + 1)
    page = found[:A_PAGE]
    return {
        "sentence": _sentence(page),
        "workers": page,
        "actions": {worker.worker_id: actions_of_worker(worker) for worker in page},
        "asked": next((_message(worker, settings.heartbeat_s) for worker in page if worker.worker_id == asked), None),
        "unserved": unserved_work(connection, settings.lease_s),
        "next_before": page[-1].worker_id if len(found) > A_PAGE else None,
        "filter": {"stopped": stopped, "before": before},
        "lease_s": settings.lease_s,
    }


def _message(worker: WorkerSummary, heartbeat_s: float) -> str:
    action = next(action for action, request in REQUESTS.items() if request == (worker.asked_to or WorkerRequest.WORK))
    return worker_message(worker, action, heartbeat_s)


def _sentence(workers: Sequence[WorkerSummary]) -> str:
    alive = [worker for worker in workers if worker.is_alive]
    stale = sum(worker.state == "stale" for worker in workers)
    if not alive:
        sentence = "No worker is alive."
    else:
        lanes = sum(worker.lanes for worker in alive)
        at_work = sum(len(worker.shards) for worker in alive)
        sentence = f"{counted(len(alive), 'worker')} alive, {at_work} of {counted(lanes, 'lane')} at work"
        kv_bytes = sum(worker.kv_bytes for worker in alive)
        sentence += f"; {size(kv_bytes)} of keys and values." if kv_bytes else "."
    if stale:
        sentence += f" {counted(stale, 'worker')} stale."
    return sentence


add_page(router, "/workers", "workers.html", workers)
