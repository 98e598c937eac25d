"""/v1/batches: files of requests that a job answers."""

import json
import re
import secrets
from contextlib import suppress
from typing import Any

import anyio
from fastapi import APIRouter, Request

from jobs.control.actions import Action, perform
from jobs.corpus.openai.request_kind import ENDPOINTS
from jobs.documents import kind_of, quoted
from jobs.errors import KvjobsError, NotFoundError
from jobs.operations.batch_runner import counts_of
from jobs.store.database import Database
from jobs.store.openai_batches import BatchStatus, StoredBatch, add_batch, change_batch, find_batch, list_batches
from jobs.store.report.job_summary import find_job
from jobs.web.openai.files import visible_file
from jobs.web.openai.requests import (
    MOST_BATCHES,
    ApiError,
    changing,
    json_body,
    listed,
    not_found,
    owner_for,
    page_of,
    text_of,
)

DEFAULT_PAGE = 20
FIELDS = ("input_file_id", "endpoint", "completion_window", "metadata")
BATCH_ID = re.compile(r"batch_[0-9a-f]{32}")
WINDOW = re.compile(r"[1-9][0-9]{0,3}[hd]")
MOST_LABELS, LONGEST_KEY, LONGEST_LABEL = 16, 64, 512
TIMES = ("in_progress", "finalizing", "completed", "failed", "cancelling", "cancelled")

router = APIRouter(prefix="/v1/batches")


@router.post("")
async def create(request: Request) -> dict[str, Any]:
    """Take a batch. Its file is read after this answers, by a thread (`jobs.operations.batch_runner`)."""
    visitor = changing(request)
    values = await json_body(request, FIELDS)
    file_id, endpoint, window = (text_of(values, name) for name in FIELDS[:3])
    if endpoint not in ENDPOINTS:
        message = f"'endpoint' is {quoted(endpoint)}; it can be {', '.join(ENDPOINTS)}."
        raise ApiError(400, message, "endpoint", "invalid_value")
    if not WINDOW.fullmatch(window):
        raise ApiError(400, "'completion_window' is a time, such as 24h.", "completion_window", "invalid_value")
    labels = _labels(values.get("metadata"))

    def add() -> StoredBatch:
        file = visible_file(request, file_id)
        if file is None:
            raise ApiError(400, f"There is no file {quoted(file_id)}.", "input_file_id", "not_found")
        if file.purpose != "batch":
            message = f"The purpose of {file_id} is {file.purpose}, and not batch: send it again as one."
            raise ApiError(400, message, "input_file_id", "invalid_value")
        return add_batch(
            request.app.state.database,
            id=f"batch_{secrets.token_hex(16)}",
            owner=visitor.name,
            max_open=visitor.max_jobs,
            input_file_id=file_id,
            endpoint=endpoint,
            completion_window=window,
            labels=labels,
        )

    batch = await anyio.to_thread.run_sync(add)
    _wake(request)
    return batch_object(batch)


@router.get("")
def list_all(request: Request) -> dict[str, Any]:
    page, database = page_of(request, MOST_BATCHES, DEFAULT_PAGE), request.app.state.database
    with database.reading() as connection:
        found = list_batches(connection, page)
    return listed([_shown(database, batch) for batch in found], page.limit)


@router.get("/{batch_id}")
def show(request: Request, batch_id: str) -> dict[str, Any]:
    return _shown(request.app.state.database, _find(request, batch_id))


@router.post("/{batch_id}/cancel")
def cancel(request: Request, batch_id: str) -> dict[str, Any]:
    """End a batch: what has an answer keeps it, and its files are written."""
    visitor, database = changing(request), request.app.state.database
    batch = _find(request, batch_id)
    open_to_it = (BatchStatus.VALIDATING, BatchStatus.IN_PROGRESS)
    if not change_batch(database, batch_id, open_to_it, BatchStatus.CANCELLING):
        batch = _find(request, batch_id)
        if batch.status not in (BatchStatus.CANCELLING, BatchStatus.CANCELLED):
            raise ApiError(409, f"A batch that is {batch.status} cannot be cancelled.", None, "not_cancellable")
    with suppress(KvjobsError):  # it has no job yet, or one that has ended: the thread does what is left to do
        perform(database, str(batch.job_id or batch_id), Action.CANCEL, visitor.actor)
    _wake(request)
    return _shown(database, _find(request, batch_id))


def batch_object(batch: StoredBatch) -> dict[str, Any]:
    """The batch as OpenAI's clients read it."""
    counts = {"total": batch.num_requests, "completed": batch.num_completed, "failed": batch.num_failed}
    times = {f"{name}_at": getattr(batch, f"{name}_at") for name in TIMES}
    usage = None
    if batch.input_tokens is not None and batch.output_tokens is not None:
        usage = {
            "input_tokens": batch.input_tokens,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": batch.output_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": batch.input_tokens + batch.output_tokens,
        }
    return {
        "id": batch.id,
        "object": "batch",
        "endpoint": batch.endpoint,
        "model": batch.model,
        "errors": None if batch.errors is None else {"object": "list", "data": json.loads(batch.errors)},
        "input_file_id": batch.input_file_id,
        "completion_window": batch.completion_window,
        "status": batch.status,
        "output_file_id": batch.output_file_id,
        "error_file_id": batch.error_file_id,
        "created_at": int(batch.created_at.timestamp()),
        **{name: None if time is None else int(time.timestamp()) for name, time in times.items()},
        "expires_at": None,  # nothing expires here
        "expired_at": None,
        "request_counts": {name: number or 0 for name, number in counts.items()},
        "usage": usage,
        "metadata": None if batch.labels is None else json.loads(batch.labels),
    }


def _shown(database: Database, batch: StoredBatch) -> dict[str, Any]:
    """The batch with the counts of its job, while this goes on."""
    found = batch_object(batch)
    if batch.job_id is None or batch.num_requests is not None:
        return found
    with database.reading() as connection:
        try:
            counts = counts_of(find_job(connection, str(batch.job_id)))
        except NotFoundError:
            return found
    found["request_counts"] = {name: counts[f"num_{key}"] for name, key in _COUNTS.items()}
    return found


_COUNTS = {"total": "requests", "completed": "completed", "failed": "failed"}


def _find(request: Request, batch_id: str) -> StoredBatch:
    database: Database = request.app.state.database
    found = None
    if BATCH_ID.fullmatch(batch_id):
        with database.reading() as connection:
            found = find_batch(connection, batch_id)
    owner = owner_for(request)
    if found is None or owner not in (None, found.owner):
        raise not_found("batch", batch_id)
    return found


def _labels(metadata: object) -> str | None:
    """The metadata of a batch as it is stored. Raises ApiError for what OpenAI does not take either."""
    if metadata is None:
        return None
    if not isinstance(metadata, dict):
        raise ApiError(400, f"'metadata' is {kind_of(metadata)}, not an object.", "metadata", "invalid_type")
    if len(metadata) > MOST_LABELS:
        raise ApiError(400, f"'metadata' has more than {MOST_LABELS} keys.", "metadata", "invalid_value")
    for key, value in metadata.items():
        if not isinstance(value, str) or len(value) > LONGEST_LABEL or len(key) > LONGEST_KEY or "\0" in key + value:
            message = (
                f"'metadata' has keys of at most {LONGEST_KEY} characters, and texts of at most {LONGEST_LABEL}, "
                f"without NUL; {quoted(key)} is none of these."
            )
            raise ApiError(400, message, "metadata", "invalid_value")
    return json.dumps(metadata, ensure_ascii=False)


def _wake(request: Request) -> None:
    runner = getattr(request.app.state, "batch_runner", None)
    if runner is not None:
        runner.wake()
