"""`kvjobs export`: the results of a job, in the order of its corpus."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from jobs.choices import Only
from jobs.cli.context import Context
from jobs.cli.records import Format, RecordFormat, record_format
from jobs.cli.result_shapes import Extra
from jobs.cli.terminal import say
from jobs.cli.wording import counted
from jobs.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobs.store.database import Database
    from jobs.store.progress import JobSummary
    from jobs.store.where.condition import Condition

NAMED = (Format.JSONL, Format.CSV, Format.TSV)  # formats that the name of a file may tell


@click.command()
@click.argument("reference", metavar="JOB")
@click.option(
    "-o",
    "--output",
    "path",
    type=click.Path(path_type=Path),
    help="The file to write; .gz and .zst compress it.  [default: standard output]",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(Format, case_sensitive=False),
    help="How to write it.  [default: by the name of the file, else jsonl]",
)
@click.option(
    "--only",
    type=click.Choice(Only, case_sensitive=False),
    help="Documents with a result, without one, or still waiting.",
)
@click.option(
    "--where",
    metavar="CONDITION",
    help="Over the columns of v_documents and the corpus' own fields: \"perplexity < 50 and lang = 'de'\".",
)
@click.option(
    "--with",
    "extras",
    type=click.Choice(Extra, case_sensitive=False),
    multiple=True,
    help="Add what was worked on, or numbers.  [repeatable]",
)
@click.option(
    "--defuse/--raw",
    default=True,
    help="CSV, TSV: put an apostrophe before texts that a spreadsheet would run, or keep them.  [default: defuse]",
)
@click.pass_obj
def export(
    context: Context,
    reference: str,
    path: Path | None,
    form: Format | None,
    only: Only | None,
    where: str | None,
    extras: tuple[Extra, ...],
    defuse: bool,
) -> None:
    """Write the results of a job in the order of its corpus.

    Every document that is in a terminal state is a record: id, status (ok, failed, rejected, quarantined,
    cancelled), translation, score or ranking, error where there is one, and the other fields of its line, each number
    as it was written. A field of the corpus that has the name of one of ours stands under "fields". The same job gives
    the same bytes, whenever it is exported.

    A score holds nll_sum (-log p in nats, over the scored tokens), num_tokens, num_words, num_bytes, and what follows
    from them: perplexity, word_perplexity, byte_perplexity, bits_per_byte. A ranking holds the candidates, best first;
    in CSV and TSV each has a row.

    --format original writes the lines of the corpus itself, as they came in, those that are wanted: copied from the
    file where it is still there unchanged, else written anew from the database (jsonl then has the id and the text
    first). Lines that could not be read are never in it.

    Of rankings --format trec writes a run, and --format cohere what Cohere's rerank endpoint answers, a query a line.

    In CSV and TSV a text that begins with = + - @ and is no number gets an apostrophe in front, lest a spreadsheet run
    it; --raw keeps it as it is. In TSV a backslash, tab or newline within a text is written \\\\, \\t or \\n.
    """
    from jobs.store.progress import find_job
    from jobs.store.where.condition import Condition

    with context.database() as database:
        condition = Condition.parse(where) if where is not None else None
        with database.reading() as connection:
            job = find_job(connection, reference)
            if condition is not None:
                condition = condition.of_job(connection, job.job_id)
        if path is None or str(path) == "-":
            sys.stdout.flush()  # what follows goes past its buffer
            num_written = write_results(
                database,
                job,
                sys.stdout.buffer,
                form=form or Format.JSONL,
                only=only,
                condition=condition,
                extras=extras,
                defuse=defuse,
            )
        else:
            num_written = export_file(
                database, job, path, form=form, only=only, condition=condition, extras=extras, defuse=defuse
            )
            say(f"Wrote {counted(num_written, 'document')} of job {job.job_id} to {path}.")
        if job.waiting and only is not Only.WAITING:
            say(f"Job {job.job_id} has not ended; still waiting, and not in it: {counted(job.waiting, 'document')}.")


def export_file(
    database: "Database",
    job: "JobSummary",
    path: Path,
    *,
    form: Format | None = None,
    only: Only | None = None,
    condition: "Condition | None" = None,
    extras: "Sequence[Extra]" = (),
    defuse: bool = True,
) -> int:
    """Write a file of results, all of it or nothing; how many documents. The name decides the format if nobody does."""
    from jobs.cli.result_file import result_file

    with result_file(path, corpus=job.source) as target:
        return write_results(
            database,
            job,
            target,
            form=form or format_of(path),
            only=only,
            condition=condition,
            extras=extras,
            defuse=defuse,
        )


def write_results(
    database: "Database",
    job: "JobSummary",
    target: BinaryIO,
    *,
    form: Format,
    only: Only | None = None,
    condition: "Condition | None" = None,
    extras: "Sequence[Extra]" = (),
    defuse: bool = True,
) -> int:
    """Write the results of a job; how many documents. Raises SpecError for a format or an extra that it has not."""
    from jobs.cli.originals import write_originals
    from jobs.cli.rankings import ranking_format
    from jobs.store.export import field_names, read_documents

    to_terminal = target.isatty()
    if extras and form not in NAMED:
        raise SpecError(f"--format {form} has no place for more; leave --with {extras[0]} out")
    if form is Format.ORIGINAL:
        return write_originals(database, job, target, only=only, condition=condition, to_terminal=to_terminal)
    records: RecordFormat
    if form in (Format.TREC, Format.COHERE):
        records = ranking_format(form, job)
    else:
        records = record_format(
            form,
            job,
            extras=extras,
            field_columns=[] if form is Format.JSONL else field_names(database, job.job_id),
            defuse=defuse,
            to_terminal=to_terminal,
        )
    target.write(records.head())
    num_written = 0
    with_text = Extra.TEXT in extras or form in (Format.TREC, Format.COHERE)
    for document in read_documents(database, job.job_id, only=only, condition=condition, with_text=with_text):
        target.write(records.line(document))
        num_written += 1
    return num_written


def format_of(path: Path) -> Format:
    """By the name: results.csv.gz is CSV; anything unknown is JSON Lines."""
    suffixes = [suffix.lower().lstrip(".") for suffix in path.suffixes]
    return next((form for form in NAMED if form.value in suffixes[-2:]), Format.JSONL)
