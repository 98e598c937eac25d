"""The options of an export, and writing it to a file or a stream."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from jobs.choices import Only
from jobs.cli.export.export_formats import Format, RecordFormat, record_format
from jobs.cli.export.result_columns import Extra
from jobs.errors import SpecError
from jobs.spec import Task

if TYPE_CHECKING:
    from jobs.cli.export.originals import Addition
    from jobs.store.database import Database
    from jobs.store.report.job_summary import JobSummary
    from jobs.store.where.condition import Condition

# The format that a file name means, before .gz or .zst.
SUFFIXES = {
    ".jsonl": Format.JSONL,
    ".csv": Format.CSV,
    ".tsv": Format.TSV,
    ".txt": Format.TXT,
    ".run": Format.TREC,
}
WITH_EXTRAS = (Format.JSONL, Format.CSV, Format.TSV)


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """The options of one export."""

    form: Format | None = None  # None: by the name of the file, else JSON Lines
    only: Only | None = None
    condition: "Condition | None" = None
    extras: Sequence[Extra] = ()
    additions: "Sequence[Addition]" = ()  # values to append to the lines of the corpus
    defuse: bool = True
    delimiter: str = ","  # of CSV

    def format_for(self, path: Path | None) -> Format:
        """The format for a file; None: standard output. Raises SpecError for options that this format does not take."""
        form = self.form or (Format.JSONL if path is None else format_of(path))
        if self.extras and form not in WITH_EXTRAS:
            raise SpecError(f"--format {form} cannot hold more values; leave --with {self.extras[0]} out")
        if self.additions and form is not Format.ORIGINAL:
            raise SpecError(f"--add is for --format original, and {form} has the results anyway; leave --add out")
        if self.delimiter != "," and form is not Format.CSV:
            raise SpecError(f"--delimiter is for --format csv, and the format is {form}; leave it out")
        return form


def export_file(database: "Database", job: "JobSummary", path: Path, export: Export | None = None) -> int:
    """Write a file of results, either completely or not at all; return the number of documents."""
    from jobs.cli.export.result_file import result_file

    export = export or Export()
    form = export.format_for(path)
    check_format(form, job.task)
    with result_file(path, corpus=job.source) as target:
        return write_results(database, job, target, form, export)


def write_results(
    database: "Database", job: "JobSummary", target: BinaryIO, form: Format, export: Export | None = None
) -> int:
    """Write the results of a job; return the number of documents. Raises SpecError for values that the job lacks."""
    from jobs.cli.export.originals import write_originals
    from jobs.cli.export.rankings import ranking_format
    from jobs.store.report.export import field_names, read_documents

    export = export or Export()
    to_terminal = target.isatty()
    check_format(form, job.task)
    if form is Format.ORIGINAL:
        return write_originals(database, job, target, export, to_terminal=to_terminal)
    only, condition = export.only, export.condition
    if form is Format.TXT and only is None and condition is None:
        only = Only.ALL  # so that line N is always that of document N
    records: RecordFormat
    if form in (Format.TREC, Format.COHERE):
        records = ranking_format(form, job)
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
    target.write(records.head())
    num_written = 0
    documents = read_documents(
        database,
        job.job_id,
        only=only,
        condition=condition,
        with_text=Extra.TEXT in export.extras or form in (Format.TREC, Format.COHERE),
    )
    for document in documents:
        target.write(records.line(document))
        num_written += 1
    return num_written


def format_of(path: Path) -> Format:
    """The format by the file name: results.csv.gz is CSV; an unknown suffix is JSON Lines."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in (".gz", ".zst"):
        suffixes.pop()
    return SUFFIXES.get(suffixes[-1], Format.JSONL) if suffixes else Format.JSONL


def check_format(form: Format, task: str) -> None:
    """Raise SpecError if this format cannot hold the results of a task; called before the work too, to fail early."""
    if form in (Format.TREC, Format.COHERE) and task != Task.RERANK:
        run = " (the format of a file named .run)" if form is Format.TREC else ""
        raise SpecError(f"--format {form}{run} is for jobs that rerank, and the task is {task}; choose another")
    if form is Format.TXT and task == Task.RERANK:
        raise SpecError("a ranking does not fit into one line of text; write it as jsonl, csv, tsv, trec or cohere")


def _is_text(database: "Database", job: "JobSummary") -> bool:
    """Whether the corpus is a txt file, in which blank lines count too."""
    from jobs.corpus.original import is_text
    from jobs.store.corpus_source import find_source

    with database.reading() as connection:
        return is_text(find_source(connection, job.job_id).reading)
