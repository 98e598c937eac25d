"""The file that a document is a unit of, and the units around it there: what a text means, its neighbours say."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from jobs.store.job_files import file_at
from jobs.store.report.documents.document import StoredDocument, find_document
from jobs.store.report.job_summary import JobSummary
from jobs.text.json_numbers import read_fields
from jobs.web.document_view.document_address import document_address

AROUND = 3  # units before and after


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit of a file, as its neighbours show it."""

    name: str
    href: str
    source: str | None
    target: str | None  # None: it has no result
    status: str
    is_this: bool


@dataclass(frozen=True, slots=True)
class FileOfUnit:
    """A file, and some of its units in their order."""

    path: str
    place: int  # of the document among the units, from 1
    documents: int
    units: Sequence[Unit]


def file_of(connection: Connection, job: JobSummary, document: StoredDocument) -> FileOfUnit | None:
    """The file of a document, with the units around it; None for a document that is no unit of a file."""
    file = file_at(connection, job.chain or job.job_id, document.position)
    if file is None or file.error is not None:
        return None
    start = max(file.first, document.position - AROUND)
    stop = min(file.first + file.documents, document.position + AROUND + 1)
    found = [
        document if position == document.position else find_document(connection, job, position=position)
        for position in range(start, stop)
    ]
    units = [_unit(job, unit, is_this=unit is document) for unit in found]
    return FileOfUnit(file.path, document.position - file.first + 1, file.documents, units)


def _unit(job: JobSummary, document: StoredDocument, *, is_this: bool) -> Unit:
    fields: dict[str, Any] = read_fields(document.fields)
    name = fields.get("unit") or document.external_id or f"line {document.line}"
    return Unit(
        name=str(name),
        href=document_address(job.job_id, document.position, document.external_id, {}),
        source=document.text,
        target=document.result.get("text"),
        status=document.status,
        is_this=is_this,
    )
