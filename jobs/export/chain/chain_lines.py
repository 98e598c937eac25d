"""The bytes of the export of a chain, document by document.

Without a choice, only the documents with a result in every stage are written. Another one has the status and the error
of the first stage in which it has none.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from jobs.errors import SpecError
from jobs.export.chain.chain_documents import ChainDocument, chain_documents
from jobs.export.chain.json_records import JsonRecords
from jobs.export.chain.stage_values import stage_values
from jobs.export.chain.table_records import DelimitedRecords, ParquetRecords
from jobs.export.delimited_rows import DelimitedRows
from jobs.export.export_formats import Format
from jobs.export.export_options import Export
from jobs.export.parquet.columns import infer
from jobs.export.result_columns import Extra
from jobs.spec import has_payload
from jobs.store.database import Database
from jobs.store.report.documents.export import field_names, first_fields, has_integer_ids
from jobs.store.report.job_summary import JobSummary


class _Records(Protocol):
    """Writes a format: `head` is the beginning of the file, `line` a document, `tail` its end."""

    def head(self) -> bytes: ...

    def line(self, document: ChainDocument) -> bytes: ...

    def tail(self) -> bytes: ...


def chain_lines(
    database: Database,
    jobs: Sequence[JobSummary],
    form: Format,
    export: Export,
    *,
    tell: Callable[[str], None],
    to_terminal: bool = False,
) -> Iterator[bytes]:
    """The head of the file, the bytes of each document, and its end; each may be empty. Then `tell` gets how many
    documents were left out, and why. Raises SpecError before the head for options that a chain does not have."""
    if export.condition is not None:
        raise SpecError("--where is for one job; to filter a chain, add a stage to it: --then 'filter CONDITION'")
    records = _records(database, jobs, form, export, to_terminal=to_terminal)
    left_out: Counter[str] = Counter()
    yield records.head()
    for document in chain_documents(database, jobs, with_text=Extra.TEXT in export.extras):
        if document.is_wanted(export.only):
            yield records.line(document)
        else:
            left_out[document.reason] += 1
    yield records.tail()
    if left_out and export.only is None:
        numbers = ", ".join(f"{number:,} {why}" for why, number in sorted(left_out.items()))
        tell(f"Left out, since they have no result in every stage: {numbers} (--only all writes them too).")


def _records(
    database: Database, jobs: Sequence[JobSummary], form: Format, export: Export, *, to_terminal: bool
) -> _Records:
    first, stages, has_text = jobs[0], stage_values(jobs, export.extras), Extra.TEXT in export.extras
    if form is Format.JSONL:
        return JsonRecords(stages, has_text=has_text, is_payload=has_payload(first.task, json.loads(first.options)))
    if form is Format.PARQUET:
        fields, has_integers = infer(first_fields(database, first.job_id)), has_integer_ids(database, first.job_id)
        return ParquetRecords(stages, fields, has_text=has_text, has_integer_ids=has_integers)
    rows = DelimitedRows(form is Format.TSV, export.defuse, export.delimiter, to_terminal)
    return DelimitedRecords(stages, field_names(database, first.job_id), rows, has_text=has_text)
