"""The lines of the list of documents."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from jobs.store.report.documents.listed_documents import CONTEXT, EXCERPT, Excerpt, ListedDocument, ascii_lower
from jobs.store.report.job_summary import JobSummary
from jobs.tasks.kind import Kind, Measure
from jobs.web.document_view.candidate_moves import Move, moves_of
from jobs.web.document_view.document_address import document_address
from jobs.web.document_view.document_filter import DocumentFilter

NUM_MOVES = 3  # of a ranking


@dataclass(frozen=True, slots=True)
class ListedRow:
    """A document as a line of the list shows it."""

    document: ListedDocument
    href: str
    source: Excerpt | None
    target: Excerpt | None
    moves: Sequence[Move]  # the first of a ranking
    num_candidates: int
    further: Sequence[tuple[Measure, Any]]  # numbers that its task declares for the list

    def as_row(self) -> dict[str, Any]:
        """The line as an object for JSON."""
        document = self.document
        names = ("position", "id", "line", "status", "error_code", "error", "flags", "perplexity", "num_tokens")
        return {name: getattr(document, name) for name in names} | {
            "href": self.href,
            "source": self.source,
            "target": self.target,
            "via": document.via,
            "moves": self.moves,
            **{measure.key: value for measure, value in self.further},
        }

    def numbers(self, headings: Sequence[str]) -> list[tuple[str, Any]]:
        """(heading, value) of the columns with these headings."""
        values = {"Perplexity": self.document.perplexity, "Tokens": self.document.num_tokens}
        values |= {measure.column: value for measure, value in self.further}
        return [(heading, values[heading]) for heading in headings]


def headings_of(kind: Kind) -> list[str]:
    """The headings of the columns of numbers."""
    return [*(["Perplexity"] if kind.mean else []), "Tokens", *(measure.column for measure in kind.columns)]


def listed_rows(documents: Sequence[ListedDocument], job: JobSummary, asked: DocumentFilter) -> list[ListedRow]:
    """The documents as lines of the list. Each has its address, which keeps the filter of the list."""
    return [_row(document, job, asked) for document in documents]


def _row(document: ListedDocument, job: JobSummary, asked: DocumentFilter) -> ListedRow:
    href = document_address(job.job_id, document.position, document.id, asked.parameters)
    payload = orjson.loads(document.payload) if document.payload else {}
    source, target = document.source, document.translation
    if "source" in payload:
        source, target = _excerpt(payload["source"], asked.search), _excerpt(payload["target"], asked.search)
    elif "query" in payload:
        source = _excerpt(payload["query"], asked.search)
    moves = moves_of(document.candidates, document.payload) if document.candidates else []
    further = [
        (measure, measure.of(document.values) if document.values and measure.is_shown(document.values) else None)
        for measure in job.kind.columns
    ]
    return ListedRow(document, href, source, target, moves[:NUM_MOVES], len(moves), further)


def _excerpt(text: str, search: str) -> Excerpt:
    """The part of a text around the first hit, cut as the database cuts it."""
    found = ascii_lower(text).find(ascii_lower(search)) if search else 0
    start = found - CONTEXT - 1 if found >= CONTEXT + 1 else 0
    return Excerpt(text[start : start + EXCERPT], start, len(text))
