"""/jobs/N/documents: the documents of a job with their results, searched, filtered and sorted; and their download."""

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from sqlalchemy import Connection
from starlette.responses import Response

from jobs.corpus.openai.request_kind import kind_in
from jobs.corpus.original import has_lines, is_parquet
from jobs.corpus.translatable.stored_reading import reading_of_files
from jobs.errors import SpecError
from jobs.export.export_formats import Format
from jobs.export.export_options import WITH_EXTRAS
from jobs.store.report.documents.document_order import Cursor, Order
from jobs.store.report.documents.document_pages import MAX_SORTED, DocumentPage, Selection, read_page, sortable
from jobs.store.report.documents.export import names_of_fields
from jobs.store.report.failures import failures
from jobs.store.report.job_summary import JobSummary
from jobs.store.report.live_job import find_live_job
from jobs.store.where.condition import Condition
from jobs.system.requirements import is_installed
from jobs.web.document_view.document_filter import (
    FIELD_AMONG,
    STATUSES,
    DocumentFilter,
    FilterOfAddress,
    as_words,
    export_address,
    export_command,
    list_address,
)
from jobs.web.document_view.languages import languages_of
from jobs.web.document_view.listed_rows import headings_of, listed_rows
from jobs.web.parameters import JobId, Reading, SettingsOfApp
from jobs.web.rendering import JsonResponse, render

A_PAGE = 50
ORDERS = {
    Order.POSITION: "as in the corpus",
    Order.WORST: "highest perplexity first",
    Order.BEST: "lowest perplexity first",
    Order.LONGEST: "most tokens first",
    Order.SHORTEST: "fewest tokens first",
}

FOR_EXCEL = "excel"  # a form of a download: CSV with a byte order mark, as `kvjobs export --bom` writes it
FORMS = {  # the forms of a download
    Format.JSONL: "JSON Lines",
    Format.CSV: "CSV",
    FOR_EXCEL: "CSV for Excel",
    Format.TSV: "TSV",
    Format.PARQUET: "Parquet",
    Format.TXT: "Text, a line a document",
    Format.TREC: "TREC run",
    Format.COHERE: "Answers of Cohere's rerank",
    Format.OPENAI: "Output lines of OpenAI",
    Format.ORIGINAL: "Lines of the corpus",
    Format.FILES: "Files, translated",
}
PlaceText = Annotated[str, Query(max_length=60)]

router = APIRouter()


def documents(
    connection: Reading,
    settings: SettingsOfApp,
    job_id: JobId,
    asked: FilterOfAddress,
    after: PlaceText = "",
    before: PlaceText = "",
) -> dict[str, Any]:
    """A page of the list. A condition that is wrong is a sentence on the page, beside the form that can mend it."""
    job = find_live_job(connection, str(job_id), settings.lease_s)
    forms = forms_of(job)
    backward = bool(before)
    cursor = Cursor.parse(before or after) if before or after else None
    try:
        written = asked.written(job.task, has_via=job.has_via)
        chosen = selection_of(connection, job, asked)
        page, problem = read_page(connection, job, chosen, cursor=cursor, backward=backward, num_documents=A_PAGE), None
    except SpecError as error:
        page, problem, written = DocumentPage([], None, None, None, 0), str(error), None
    return {
        "job": job,
        "documents": listed_rows(page.documents, job, asked),
        "before": page.before,
        "after": page.after,
        "stopped": page.stopped,
        "backward": backward,
        "progress": _progress(job, asked, page, backward),
        "filter": asked,
        "chips": _chips(job, asked),
        "downloads": [(name, export_address(job, asked, form)) for form, name in forms.items()],
        "problem": problem,
        "condition": written,
        "command_line": export_command(job, written),
        "choices": _choices(connection, job, asked),
        "languages": languages_of(job),
        "words": job.kind.words,
        "headings": headings_of(job.kind),
        "place": {"after": after, "before": before},
    }


def selection_of(connection: Connection, job: JobSummary, asked: DocumentFilter) -> Selection:
    """The condition and the order that the store is asked for. Raises SpecError for a wrong condition."""
    written = asked.written(job.task, has_via=job.has_via)
    condition = None if written is None else Condition.parse(written).of_job(connection, job.job_id, FIELD_AMONG)
    return Selection(
        condition=condition, status=asked.status, error_code=asked.code, order=asked.order, search=asked.search
    )


def _choices(connection: Connection, job: JobSummary, asked: DocumentFilter) -> dict[str, Any]:
    reasons = failures(connection, job, num_samples=0)
    codes = {reason.code: reason.documents for reason in reasons if reason.code and asked.status in ("", reason.status)}
    possible = sortable(job)
    return {
        "status": statuses_of(job, asked.status),
        "code": sorted(codes.items(), key=lambda item: -item[1]),
        "flag": [*(({asked.flag: 0} if asked.flag else {}) | job.flags).items()],
        "field": names_of_fields(connection, job.job_id),
        "sort": [(order.value, words) for order, words in ORDERS.items() if order in possible],
        "unsorted": None if Order.LONGEST in possible else MAX_SORTED,
        "has_perplexity": job.kind.mean is not None,
    }


def statuses_of(job: JobSummary, chosen: str = "") -> list[tuple[str, int]]:
    """The statuses that documents of the job have, with their number, and the one that is `chosen`."""
    counts = {"ok": job.succeeded, "waiting": job.waiting}
    counts |= {name: getattr(job, name) for name in ("rejected", "failed", "quarantined", "cancelled", "skipped")}
    return [(name, counts[name]) for name in STATUSES if counts[name] or name == chosen]


def forms_of(job: JobSummary) -> dict[str, str]:
    """The formats of a download that can hold the results of the job: parquet where the package for it is installed,
    lines of the corpus where it has any. (A corpus from a pipe, or whose file is gone or changed, has lines too: they
    are written from the database.)"""
    kept = {Format.JSONL, Format.CSV, FOR_EXCEL, Format.TSV, *(job.kind.formats if job.kind.fields else ())}
    if is_installed("pyarrow"):
        kept.add(Format.PARQUET)
    if kind_in(job.reading) is not None:
        kept.add(Format.OPENAI)
    if job.kind.is_between_languages and reading_of_files(job.reading) is not None:
        kept.add(Format.FILES)
    if has_lines(job.reading) and (is_installed("pyarrow") or not is_parquet(job.reading)):
        kept.add(Format.ORIGINAL)
    return {str(form): name for form, name in FORMS.items() if form in kept}


def chain_forms(forms: Mapping[str, str]) -> dict[str, str]:
    """The forms of these that can hold the results of all stages of a chain."""
    return {form: name for form, name in forms.items() if form in (*WITH_EXTRAS, FOR_EXCEL)}


def _chips(job: JobSummary, asked: DocumentFilter) -> list[dict[str, str]]:
    """Each condition in words, and the address of the list without it."""
    return [
        {"words": words, "without": list_address(job, asked, names.split())} for names, words in as_words(asked).items()
    ]


def _progress(job: JobSummary, asked: DocumentFilter, page: DocumentPage, backward: bool) -> dict[str, Any] | None:
    """How far a search has come that did not find enough in time."""
    if page.stopped is None or not job.documents:
        return None
    if asked.order is not Order.POSITION:
        return {"looked": page.num_looked, "share": None}
    at = page.stopped.position
    looked = job.documents - at if backward else at + 1
    return {"looked": looked, "share": looked / job.documents}


def page(request: Request, found: Annotated[dict[str, Any], Depends(documents)]) -> Response:
    return render(request, "documents.html", found, status_code=400 if found["problem"] else 200)


def as_json(found: Annotated[dict[str, Any], Depends(documents)]) -> Response:
    shown = {name: value for name, value in found.items() if name not in ("choices", "languages", "words", "headings")}
    shown |= {name: None if found[name] is None else str(found[name]) for name in ("before", "after", "stopped")}
    shown["filter"] = found["filter"].parameters
    shown["documents"] = [row.as_row() for row in found["documents"]]
    return JsonResponse(shown, 400 if found["problem"] else 200)


router.add_api_route("/jobs/{job_id:int}/documents", page, methods=["GET"])
router.add_api_route("/jobs/{job_id:int}/documents.json", as_json, methods=["GET"])
