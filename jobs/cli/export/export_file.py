"""An export, whoever asks for it: which documents, what of them, in which format, and where to."""

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

# What the name of a file tells, before .gz or .zst.
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
    """What is asked for; raise SpecError for what does not go together."""

    form: Format | None = None  # None: as the name of the file says, else JSON Lines
    only: Only | None = None
    condition: "Condition | None" = None
    extras: Sequence[Extra] = ()
    additions: "Sequence[Addition]" = ()  # to the lines of the corpus
    defuse: bool = True
    delimiter: str = ","  # of CSV

    def of_file(self, path: Path | None) -> Format:
        """The format in which it is written there; None is standard output."""
        form = self.form or (Format.JSONL if path is None else format_of(path))
        if self.extras and form not in WITH_EXTRAS:
            raise SpecError(f"--format {form} has no place for more; leave --with {self.extras[0]} out")
        if self.additions and form is not Format.ORIGINAL:
            raise SpecError(f"--add is for --format original, and the format is {form}; {form} has the results anyway")
        if self.delimiter != "," and form is not Format.CSV:
            raise SpecError(f"--delimiter is for --format csv, and the format is {form}; leave it out")
        return form


def export_file(database: "Database", job: "JobSummary", path: Path, export: Export | None = None) -> int:
    """Write a file of results, all of it or nothing; how many documents."""
    from jobs.cli.export.result_file import result_file

    export = export or Export()
    form = export.of_file(path)
    check_format(form, job.task)
    with result_file(path, corpus=job.source) as target:
        return write_results(database, job, target, form, export)


def write_results(
    database: "Database", job: "JobSummary", target: BinaryIO, form: Format, export: Export | None = None
) -> int:
    """Write the results of a job; how many documents. Raises SpecError for what the job has not."""
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
        only = Only.ALL  # line N is always that of document N
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
    """By the name: results.csv.gz is CSV; anything unknown is JSON Lines."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in (".gz", ".zst"):
        suffixes.pop()
    return SUFFIXES.get(suffixes[-1], Format.JSONL) if suffixes else Format.JSONL


def check_format(form: Format, task: str) -> None:
    """Raise SpecError where the results of a task cannot be written so: better before the work than after it."""
    if form in (Format.TREC, Format.COHERE) and task != Task.RERANK:
        run = " (which a name that ends in .run means)" if form is Format.TREC else ""
        raise SpecError(f"--format {form}{run} is for jobs that rerank, and the task is {task}; choose another")
    if form is Format.TXT and task == Task.RERANK:
        raise SpecError("a ranking is more than a line of text: write it as jsonl, csv, tsv, trec or cohere")


def _is_text(database: "Database", job: "JobSummary") -> bool:
    """Whether the corpus is a txt, of which each line counts, blank or not."""
    from jobs.corpus.original import is_text
    from jobs.store.corpus_source import find_source

    with database.reading() as connection:
        return is_text(find_source(connection, job.job_id).reading)
