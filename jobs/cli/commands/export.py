"""`kvjobs export`: the results of a job, in the order of its corpus."""

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from jobs.addresses.address import Location, located
from jobs.choices import Only
from jobs.cli.choice import SuggestingChoice
from jobs.cli.context import Context
from jobs.cli.parsed_type import Parsed
from jobs.cli.render.messages import print_message
from jobs.errors import SpecError
from jobs.export.export_file import export_file, format_for_job, write_results
from jobs.export.export_formats import Format
from jobs.export.export_options import Export
from jobs.export.result_columns import Extra
from jobs.text.formatting import counted

if TYPE_CHECKING:
    from jobs.store.report.job_summary import JobSummary


@click.command()
@click.argument("reference", metavar="JOB")
@click.option(
    "-o",
    "--output",
    "path",
    type=Parsed(located),
    metavar="PATH",
    help="The file to write, or its address (s3://bucket/out.jsonl). Its name sets the format: .jsonl, .csv, .tsv, "
    ".txt, .parquet or .run; a further .gz, .zst, .xz or .bz2 compresses it (not parquet).  [default: standard output]",
)
@click.option(
    "--format",
    "form",
    type=SuggestingChoice(Format, case_sensitive=False),
    help="The format.  [default: by the name of the file; jsonl without a suffix]",
)
@click.option(
    "--only",
    type=SuggestingChoice(Only, case_sensitive=False),
    help="Only documents with a result (ok), that ended without one (failed), or that have not ended (waiting); all: "
    "every document.  [default: those that ended]",
)
@click.option(
    "--where",
    metavar="CONDITION",
    help='Only documents that meet a condition on columns of v_documents or fields of the corpus: "perplexity < 50 and '
    "lang = 'de'\".",
)
@click.option(
    "--with",
    "extras",
    type=SuggestingChoice(Extra, case_sensitive=False),
    multiple=True,
    help="Add the text of the document, the log-probability of its translation, or its token counts.  [repeatable]",
)
@click.option(
    "--add",
    "additions",
    metavar="NAME[=AS]",
    multiple=True,
    help="With --format original: add a value of the result to each line: perplexity, translation ...  [repeatable]",
)
@click.option(
    "--chain",
    "whole",
    is_flag=True,
    help="The results of all stages of the chain that the job belongs to, as jsonl, csv, tsv or parquet.",
)
@click.option("--delimiter", metavar="SIGN", help="CSV: the character between two cells: ';', '|', tab ...")
@click.option("--bom", is_flag=True, help="CSV, TSV: begin with a byte order mark, by which Excel recognizes UTF-8.")
@click.option(
    "--defuse/--raw",
    default=True,
    help="CSV, TSV: put an apostrophe before a text that a spreadsheet would take for a formula, or not.  "
    "[default: defuse]",
)
@click.pass_obj
def export(
    context: Context,
    reference: str,
    path: Location | None,
    form: Format | None,
    only: Only | None,
    where: str | None,
    extras: tuple[Extra, ...],
    additions: tuple[str, ...],
    whole: bool,
    delimiter: str | None,
    bom: bool,
    defuse: bool,
) -> None:
    """Write the results of a job, in the order of its corpus.

    A stage of a chain is a job, too: documents that its filter does not keep, and those that the stage before had no
    result for, are skipped, and left out unless --only all asks for them. --chain writes the results of all stages in
    one record, for the documents that have one in every stage. A name that an earlier stage has too gets the number of
    its stage: score, then score_3.

    Every document in a terminal state is a record: id, status (ok, failed, rejected, quarantined, cancelled, skipped),
    translation, score, ranking or generation, the error if there is one, and the other fields of its line, numbers
    exactly as written there. A field of the corpus that has the name of one of these keys is written under "fields". A
    job that has ended is always exported to the same bytes.

    A score holds nll_sum (the sum of -log p over the scored tokens, in nats), num_tokens, num_words and num_bytes, and
    what is computed from them: perplexity, word_perplexity, byte_perplexity, bits_per_byte. A ranking holds the
    candidates, best first; in CSV and TSV each candidate is a row.

    --format original writes lines of the corpus as they were submitted: copied from the file if that is unchanged, else
    written from the database (in jsonl with the id and the text first). Rejected lines are left out. --add appends
    values of the result to each line: as keys in jsonl, as columns in csv and tsv, after a tab in txt.

    \b
    kvjobs export last --format original --add perplexity --add bits_per_byte=bpb

    --format txt writes one line for each document, in the order of the corpus: the translation with its line breaks
    replaced by spaces, or the perplexity; an empty line where there is no result. For a txt corpus, blank lines of the
    corpus are written too.

    --format parquet writes a table with typed columns, a row for each document; it needs the package pyarrow. A field
    of the corpus has the type that its first 10,000 documents have; lists, objects and mixed values are JSON text. With
    --format original, rows of a parquet corpus are written as parquet, with the types that they had.

    --format files writes the files of a corpus of files with their translations in them, to a folder, or of several a
    .zip; a unit without a translation keeps its text. Of such a job it is the format where the name says no other.

    --format openai writes the output lines of OpenAI's Batch API, which results of a batch file have without it.

    For rankings, --format trec writes a TREC run, and --format cohere the answers of Cohere's rerank endpoint, a query
    a line.

    In CSV and TSV a text that begins with = + - or @ (perhaps full-width, or behind blanks), a tab or a line break, and
    is not a number, gets an apostrophe in front, so that no spreadsheet runs it; --raw writes it unchanged. In TSV a
    backslash, tab or newline within a text is written \\\\, \\t or \\n.
    """
    from jobs.corpus.corpus_format import separator_of
    from jobs.export.originals import Addition
    from jobs.store.report.job_summary import find_chain, find_job
    from jobs.store.where.condition import Condition

    condition = Condition.parse(where) if where is not None else None
    export = Export(
        form=form,
        only=only,
        extras=extras,
        additions=[Addition.parse(addition) for addition in additions],
        defuse=defuse,
        delimiter=separator_of(delimiter) if delimiter else ",",
        bom=bom,
        spool=context.settings.home / "spool",
    )
    to_file = path is not None and str(path) != "-"
    with context.database() as database:
        with database.reading() as connection:
            job = find_job(connection, reference)
            if condition is not None:
                export = replace(export, condition=condition.of_job(connection, job.job_id))
            if whole:
                export = replace(export, stages=_stages_of(job, find_chain(connection, job)))
        form = format_for_job(export, job.reading, path if to_file else None)
        if path is not None and to_file:
            what = f"the chain of job {job.job_id}" if whole else f"job {job.job_id}"
            num_written = export_file(database, job, path, export, tell=print_message)
            if form is Format.FILES:
                print_message(f"Wrote the files of {what} to {path}.")
            else:
                print_message(f"Wrote {counted(num_written, 'document')} of {what} to {path}.")
        else:
            sys.stdout.flush()  # the results bypass its text buffer
            write_results(database, job, sys.stdout.buffer, form, export, tell=print_message)
        if not whole and job.waiting and only not in (Only.WAITING, Only.ALL):
            missing = {Format.TXT: "with an empty line each", Format.FILES: "with their own text"}.get(
                form, "and left out"
            )
            print_message(
                f"Job {job.job_id} has not ended; still waiting, {missing}: {counted(job.waiting, 'document')}."
            )


def _stages_of(job: "JobSummary", stages: "list[JobSummary]") -> "list[JobSummary]":
    if len(stages) == 1:
        raise SpecError(f"job {job.label} belongs to no chain; leave --chain out")
    return stages
