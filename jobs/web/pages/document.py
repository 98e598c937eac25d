"""/jobs/N/documents/ID: one document, its result, and how it came about."""

import json
from collections.abc import Mapping
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Query, Request
from sqlalchemy import Connection
from starlette.responses import RedirectResponse, Response

from jobs.errors import NotFoundError, SpecError
from jobs.facts.flags import FLAG_WORDS
from jobs.routing.routes import read_routes
from jobs.spec import has_payload
from jobs.store.report.documents.document import StoredDocument, cursor_of, find_document, processing_of
from jobs.store.report.documents.document_pages import Selection, find_cursors
from jobs.store.report.job_summary import JobSummary
from jobs.store.report.live_job import find_live_job
from jobs.text.json_numbers import read_fields
from jobs.text.json_text import to_json
from jobs.web.document_view.aligned_text import aligned
from jobs.web.document_view.candidate_moves import moves_of
from jobs.web.document_view.document_address import document_address, json_document_address
from jobs.web.document_view.document_filter import DocumentFilter, FilterOfAddress, list_address
from jobs.web.document_view.file_units import file_of
from jobs.web.document_view.languages import languages_of
from jobs.web.document_view.token_colors import LEGEND, colored_tokens
from jobs.web.pages.documents import selection_of
from jobs.web.parameters import JobId, Reading, SettingsOfApp
from jobs.web.rendering import JsonResponse, render

MAX_CHARACTERS = 12_000  # of source and result together, unless the whole text is asked for
MAX_TOKENS = 3_000
BUDGET_S = 0.05  # of looking for each neighbour

router = APIRouter()


@router.get("/jobs/{job_id:int}/documents/{document_id:path}", response_model=None)
def document(
    request: Request,
    connection: Reading,
    settings: SettingsOfApp,
    job_id: JobId,
    document_id: str,
    asked: FilterOfAddress,
    position: Annotated[int | None, Query(ge=0, le=2**53)] = None,
    whole: bool = False,
) -> Response:
    """A document, found by its id or by its position. An id followed by `.json` gives JSON, unless that is an id."""
    job = find_live_job(connection, str(job_id), settings.lease_s)
    if not document_id and position is None:
        return RedirectResponse(list_address(job, asked), 307)
    found, as_json = _find(connection, job, document_id, position)
    data = _data(connection, job, found, asked, whole)
    if as_json:
        return JsonResponse(data)
    return render(request, "document.html", data | {"words": job.kind.words})


def _find(
    connection: Connection, job: JobSummary, document_id: str, position: int | None
) -> tuple[StoredDocument, bool]:
    """The document, and whether it is asked for as JSON."""
    if position is not None:
        return find_document(connection, job, position=position), document_id == ".json"
    try:
        return find_document(connection, job, external_id=document_id), False
    except NotFoundError:
        if not document_id.endswith(".json"):
            raise
        return find_document(connection, job, external_id=document_id.removesuffix(".json")), True


def _data(
    connection: Connection, job: JobSummary, found: StoredDocument, asked: DocumentFilter, whole: bool
) -> dict[str, Any]:
    result, payload = found.result, _payload(job, found)
    source, target = payload.get("source", found.text), payload.get("target", result.get("text"))
    limit = 2**62 if whole else MAX_CHARACTERS
    tokens = colored_tokens(result["token_scores"]) if result.get("token_scores") else []
    here = document_address(job.job_id, found.position, found.external_id, asked.parameters)
    via = result.get("via")
    num_hidden = max(0, sum(len(text or "") for text in (source, via, target)) - limit)
    return {
        "job": job,
        "document": {name: getattr(found, name) for name in OWN},
        "title": found.external_id if found.external_id is not None else f"line {found.line}",
        "source": payload.get("query", source),
        "target": target,
        "via": via,
        "limit": limit,
        "is_cut": bool(num_hidden) or (len(tokens) > MAX_TOKENS and not whole),
        "whole_address": f"{here}{'&' if '?' in here else '?'}whole=true",
        "json_address": json_document_address(job.job_id, found.position, found.external_id, asked.parameters),
        "aligned": aligned(
            source or "",
            target or "",
            result.get("segments"),
            limit,
            via,
            result.get("via_segments"),
            result.get("alignments"),
        ),
        "measures": _measures(job, result),
        "alternatives": orjson.loads(result["alternatives"]) if result.get("alternatives") else [],
        "flags": [(flag, FLAG_WORDS.get(flag, "")) for flag in result.get("flags", "").split()],
        "fields": [(name, _shown(value)) for name, value in read_fields(found.fields).items()],
        "tokens": tokens if whole else tokens[:MAX_TOKENS],
        "num_tokens_hidden": 0 if whole else max(0, len(tokens) - MAX_TOKENS),
        "legend": LEGEND,
        "moves": moves_of(result["candidates"], found.text) if result.get("candidates") else [],
        "candidates": payload.get("candidates", []),
        "processing": processing_of(connection, job, found),
        "finished_at": result.get("finished_at"),
        "answered_by": None if job.order.is_default else result.get("provider"),
        "languages": languages_of(job, found.route),
        "models": _models_of(job, found),
        "filter": asked,
        "list_address": list_address(job, asked),
        **_neighbours(connection, job, found, asked),
        **_file(connection, job, found),
    }


OWN = ("position", "external_id", "unnamed", "line", "route", "status", "error_code", "error")


def _models_of(job: JobSummary, found: StoredDocument) -> str | None:
    """The models of the document, where they were chosen by its language."""
    routes = {route.language: route for route in read_routes(json.loads(job.options).get("routes", ()))}
    return None if found.route is None else routes[found.route].models


def _payload(job: JobSummary, found: StoredDocument) -> Mapping[str, Any]:
    """The parts of a pair or of a query; nothing for a text."""
    if found.text is None or not has_payload(job.task, json.loads(job.options)):
        return {}
    payload: Mapping[str, Any] = orjson.loads(found.text)
    return payload


def _measures(job: JobSummary, result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The numbers of a result: name, value, unit."""
    return [
        {"name": measure.label, "value": measure.of(result)} | ({"unit": measure.unit} if measure.unit else {})
        for measure in job.kind.measures
        if result and measure.is_shown(result)
    ]


def _shown(value: Any) -> str:
    """A value of a field: a text as it is, anything else as JSON."""
    return value if isinstance(value, str) else to_json(value).decode()


def _file(connection: Connection, job: JobSummary, found: StoredDocument) -> dict[str, Any]:
    """The file that the document is a unit of; nothing for one that is none."""
    file = file_of(connection, job, found)
    return {} if file is None else {"file": file}


def _neighbours(
    connection: Connection, job: JobSummary, found: StoredDocument, asked: DocumentFilter
) -> dict[str, Any]:
    """The addresses of the documents before and behind this one in its list; where looking for one would take too long,
    that of the list from where the search stopped."""
    try:
        selection = selection_of(connection, job, asked)
        cursor = cursor_of(found, job, asked.order)
    except SpecError:
        selection, cursor = Selection(), None
    neighbours: dict[str, Any] = {"previous": None, "next": None, "search_back": None, "search_on": None}
    if cursor is None:
        return neighbours
    for name, on, parameter, backward in (
        ("previous", "search_back", "before", True),
        ("next", "search_on", "after", False),
    ):
        scan = find_cursors(connection, job, selection, cursor, backward, 1, BUDGET_S)
        if scan.found:
            document = find_document(connection, job, position=scan.found[0].position)
            neighbours[name] = document_address(job.job_id, document.position, document.external_id, asked.parameters)
        elif scan.stopped:
            here = list_address(job, asked)
            neighbours[on] = f"{here}{'&' if '?' in here else '?'}{parameter}={scan.stopped}"
    return neighbours
