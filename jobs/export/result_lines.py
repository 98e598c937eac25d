"""The bytes of an export, document by document: for a file, a terminal or a browser."""

from collections.abc import Callable, Iterator

from jobs.choices import Only
from jobs.corpus.original import is_text
from jobs.errors import SpecError
from jobs.export.chain.chain_lines import chain_lines
from jobs.export.export_formats import Format, RecordFormat, record_format
from jobs.export.export_options import Export, check_format
from jobs.export.file_streams import content_stream
from jobs.export.openai_lines import openai_lines
from jobs.export.originals import NO_TERMINAL, original_lines
from jobs.export.parquet.results import parquet_results
from jobs.export.rankings import ranking_format
from jobs.export.result_columns import Extra
from jobs.store.database import Database
from jobs.store.report.documents.export import field_names, find_source, read_documents
from jobs.store.report.job_summary import JobSummary


def result_lines(
    database: Database,
    job: JobSummary,
    form: Format,
    export: Export,
    *,
    tell: Callable[[str], None],
    to_terminal: bool = False,
) -> Iterator[bytes]:
    """The head of the file, then the bytes of each document, then the end of the file; each may be empty.

    `tell` gets what the reader of the export should know besides. Raises SpecError before the head for values that the
    job lacks.
    """
    check_format(form, job.task)
    if form is Format.PARQUET and to_terminal:
        raise SpecError(NO_TERMINAL)
    if export.stages:
        yield from chain_lines(database, export.stages, form, export, tell=tell, to_terminal=to_terminal)
        return
    if form is Format.ORIGINAL:
        yield from original_lines(database, job, export, tell=tell, to_terminal=to_terminal)
        return
    if form is Format.FILES:
        yield from content_stream(database, job, export, tell=tell, to_terminal=to_terminal)
        return
    only, condition = export.only, export.condition
    if form is Format.TXT and only is None and condition is None:
        only = Only.ALL  # so that line N always belongs to document N
    records: RecordFormat
    with_text = Extra.TEXT in export.extras or form in (Format.TREC, Format.COHERE)
    if form is Format.OPENAI:
        records = requests = openai_lines(job)
        with_text = requests.needs_text
    elif form in (Format.TREC, Format.COHERE):
        records = ranking_format(form, job)
    elif form is Format.PARQUET:
        records = parquet_results(database, job, export.extras)
    else:
        records = record_format(
            form,
            job,
            extras=export.extras,
            field_columns=field_names(database, job.job_id) if form in (Format.CSV, Format.TSV) else [],
            defuse=export.defuse,
            delimiter=export.delimiter,
            keeps_blank_lines=form is Format.TXT and only is Only.ALL and _is_text(database, job),
            to_terminal=to_terminal,
        )
    yield records.head()
    documents = read_documents(
        database,
        job.job_id,
        only=only,
        condition=condition,
        with_text=with_text,
    )
    for document in documents:
        yield records.line(document)
    yield records.tail()


def _is_text(database: Database, job: JobSummary) -> bool:
    """Whether the corpus is a txt file, in which blank lines count too."""
    with database.reading() as connection:
        return is_text(find_source(connection, job.job_id).reading)
