"""/workers: who serves which queues, with which models warm, and what they do now."""

from typing import Any

from fastapi import APIRouter

from jobs.store.report.worker_list import list_workers
from jobs.web.rendering import add_page
from jobs.web.store_access import Reading, SettingsOfApp

router = APIRouter()


def workers(connection: Reading, settings: SettingsOfApp, stopped: bool = False) -> dict[str, Any]:
    return {"workers": list_workers(connection, settings.lease_s, everything=stopped), "stopped": stopped}


add_page(router, "/workers", "workers.html", workers)
