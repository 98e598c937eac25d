"""`kvjobs export --format original`: lines of the corpus as they were submitted; with `--add`, values of the result are
appended to each."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobs.addresses.address import Location, is_address, is_hidden
from jobs.corpus.corpus_format import Format, format_of
from jobs.corpus.original import AddedLines, CorpusLayout, Lines, RewrittenLines, copied_lines, unchanged_files
from jobs.corpus.sql_source import is_query
from jobs.errors import SpecError, meant
from jobs.export.export_formats import one_line
from jobs.export.export_options import Export
from jobs.export.result_columns import Shape, addable, added_value, shape_of
from jobs.store.database import Database
from jobs.store.report.documents.export import (
    CorpusSource,
    ExportedDocument,
    field_names,
    find_source,
    first_fields,
    has_integer_ids,
    read_documents,
)
from jobs.store.report.job_summary import JobSummary
from jobs.store.schema.states import DocumentStatus
from jobs.system.requirements import is_installed, needs_pyarrow
from jobs.text.csv_text import csv_cell
from jobs.text.formatting import visible
from jobs.text.json_text import to_json

NO_TERMINAL = "parquet is no text for a terminal; name a file with -o"


@dataclass(frozen=True, slots=True)
class Addition:
    """A value of the result, and the name to write it under: `perplexity`, or `perplexity=ppl`."""

    key: str
    name: str

    @classmethod
    def parse(cls, text: str) -> "Addition":
        key, _, name = text.partition("=")
        return cls(key, name or key)


def check_original_name(database: Database, job: JobSummary, path: Location) -> None:
    """Raise SpecError for a file whose name promises parquet where the corpus has lines, or lines where it has rows."""
    with database.reading() as connection:
        layout = CorpusLayout.parse(find_source(connection, job.job_id).reading)
    said = format_of(Path(path.name))
    if said is not None and (said is Format.PARQUET) != (layout.format is Format.PARQUET):
        raise SpecError(
            f"the corpus is {layout.format}, and what is written of it is {layout.format} too; give {path} that suffix"
        )


def original_lines(
    database: Database, job: JobSummary, export: Export, *, tell: Callable[[str], None], to_terminal: bool
) -> Iterator[bytes]:
    """The head of the file, the lines of the selected documents except rejected ones, and the end of the file.

    Raises SpecError before the head for a corpus that does not consist of lines, and for an addition that the results
    do not have or whose name the corpus uses.
    """
    with database.reading() as connection:
        source = find_source(connection, job.job_id)
    layout = CorpusLayout.parse(source.reading)
    if export.bom and layout.delimiter is None:
        raise SpecError(f"--bom is for csv and tsv, and the corpus is {layout.format}; leave it out")
    shape, additions = shape_of(job), export.additions
    _check_names(database, job, layout, additions, shape)
    if layout.format is Format.PARQUET:
        yield from _parquet_rows(database, job, layout, source, export, tell=tell, to_terminal=to_terminal)
        return
    clean = _visible if to_terminal else bytes
    with _lines(database, job, layout, source, export.spool, tell) as (lines, is_copied):
        found = read_documents(
            database,
            job.job_id,
            only=export.only,
            condition=export.condition,
            with_text=not is_copied,
            text_of=job.chain,  # of a later stage, too, the text of the corpus is written
            with_next_line=is_copied,
        )
        line: Callable[[ExportedDocument], bytes] = lines.line
        head = lines.head
        if additions:
            added = AddedLines(lines, layout, [addition.name for addition in additions])
            head = added.head

            def line(document: ExportedDocument) -> bytes:
                values = (added_value(shape, addition.key, document) for addition in additions)
                return added.line(document, [_written(value, layout, export.defuse) for value in values])

        yield clean(head())
        for document in found:
            if document.status not in (DocumentStatus.REJECTED, DocumentStatus.SKIPPED):
                yield clean(line(document))
    yield b""


def _parquet_rows(
    database: Database,
    job: JobSummary,
    layout: CorpusLayout,
    source: CorpusSource,
    export: Export,
    *,
    tell: Callable[[str], None],
    to_terminal: bool,
) -> Iterator[bytes]:
    """What `original_lines` does, for a corpus in parquet."""
    if to_terminal:
        raise SpecError(NO_TERMINAL)
    if not is_installed("pyarrow"):
        raise SpecError(needs_pyarrow())
    from jobs.corpus.parquet.rows import CopiedRows
    from jobs.export.parquet.originals import CopiedTable, RewrittenTable, added_columns

    shape = shape_of(job)
    added = added_columns(shape, [(addition.key, addition.name) for addition in export.additions])
    with unchanged_files(job.source, layout, source.digest, export.spool) as files:
        table: CopiedTable | RewrittenTable
        if files:
            table = CopiedTable(CopiedRows([file.path for file in files]), added)
        else:
            tell(f"{job.source} {_why_not_copied(job.source)}, so its rows are written from the database.")
            table = RewrittenTable(
                layout,
                first_fields(database, job.job_id, among=None),
                added,
                has_ids=source.has_ids,
                has_integer_ids=has_integer_ids(database, job.job_id),
            )
        yield b""
        for document in read_documents(
            database,
            job.job_id,
            only=export.only,
            condition=export.condition,
            with_text=not files,
            text_of=job.chain,
        ):
            if document.status not in (DocumentStatus.REJECTED, DocumentStatus.SKIPPED):
                yield table.line(
                    document, [added_value(shape, addition.key, document) for addition in export.additions]
                )
        yield table.tail()


@contextmanager
def _lines(
    database: Database,
    job: JobSummary,
    layout: CorpusLayout,
    source: CorpusSource,
    spool: Path | None,
    tell: Callable[[str], None],
) -> Iterator[tuple[Lines, bool]]:
    """The writer of the corpus's lines, and whether it copies them from the file."""
    with copied_lines(layout, job.source, source.digest, source.first_line, spool) as copied:
        if copied is None:
            why = _why_not_copied(job.source)
            if layout.is_folder and layout.has_header:
                why = "is several tables, each with a header of its own"
            if not job.was_opened:
                tell(f"{job.source} {why}, so its lines are written from the database.")
            yield RewrittenLines(layout, field_names(database, job.job_id), has_ids=source.has_ids), False
        else:
            if layout.encoding:
                tell(f"{job.source} is written in {layout.encoding}; its lines are exported in UTF-8.")
            yield copied, True


def _why_not_copied(source: str) -> str:
    if is_query(source):
        return "is not asked again"
    if is_hidden(source):
        return "is stored without what is needed to read it again"
    if is_address(source):
        return "cannot be read now, or no longer holds the corpus as submitted"
    return "no longer holds the corpus as submitted"


def _check_names(
    database: Database, job: JobSummary, layout: CorpusLayout, additions: Sequence[Addition], shape: Shape
) -> None:
    taken = [] if layout.format is Format.TXT else [layout.id_field, *layout.fields.values()]
    if additions:
        taken += field_names(database, job.job_id)
    parts = addable(shape, json.loads(job.options))
    for addition in additions:
        if addition.key not in parts:
            raise SpecError(
                f"--add {addition.key}: the results of job {job.label} have no such value{meant(addition.key, parts)}; "
                f"they have {', '.join(parts)}"
            )
        if addition.name in taken:
            raise SpecError(
                f"the corpus has a field {addition.name!r} already; choose another name: --add {addition.key}=OTHER"
            )
        taken.append(addition.name)


def _written(value: Any, layout: CorpusLayout, defuse: bool) -> str:
    """A value in the form of the corpus: JSON, a cell of a table, or for txt a text without line breaks and tabs."""
    if layout.has_objects:
        return to_json(value).decode()
    if value is None:
        return ""
    if layout.format is Format.TXT:
        return one_line(str(csv_cell(value, defuse=False))).replace("\t", " ")
    return str(csv_cell(value, defuse=defuse))


def _visible(lines: bytes) -> bytes:
    """Lines that are safe to print on a terminal."""
    return b"".join(
        f"{visible(line)}\n".encode() for line in lines.decode("utf-8", "replace").removesuffix("\n").split("\n")
    )
