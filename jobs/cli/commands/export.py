"""`kvjobs export`: the results of a job, in the order of its corpus."""

import sys
from dataclasses import replace
from pathlib import Path

import click

from jobs.choices import Only
from jobs.cli.context import Context
from jobs.cli.export.export_file import Export, export_file, write_results
from jobs.cli.export.export_formats import Format
from jobs.cli.export.result_columns import Extra
from jobs.cli.render.messages import print_message
from jobs.formatting import counted


@click.command()
@click.argument("reference", metavar="JOB")
@click.option(
    "-o",
    "--output",
    "path",
    type=click.Path(path_type=Path),
    help="The file to write; .jsonl, .csv, .tsv, .txt and .run tell the format, .gz and .zst behind them compress it.  "
    "[default: standard output]",
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
    help="Documents with a result, without one, or still waiting; all: whatever they are.",
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
    "--add",
    "additions",
    metavar="NAME[=AS]",
    multiple=True,
    help="Original: put a part of the result at the end of each line: perplexity, translation ...  [repeatable]",
)
@click.option("--delimiter", metavar="SIGN", help="CSV: what stands between two cells: ';', '|', tab ...")
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
    additions: tuple[str, ...],
    delimiter: str | None,
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
    first). Lines that could not be read are never in it. --add puts parts of the result at the end of each line: as
    keys of its object, as columns of a csv or tsv (with the delimiter that it has), in a txt behind a tab.

    \b
    kvjobs export last --format original --add perplexity --add bits_per_byte=bpb

    txt is a line a document, in the order of the corpus and as many as it has: the translation, a line break in it
    written as a space, or the perplexity; empty where there is no result. Of a txt corpus its blank lines count too.

    Of rankings --format trec writes a run, and --format cohere what Cohere's rerank endpoint answers, a query a line.

    In CSV and TSV a text that begins with = + - @ and is no number gets an apostrophe in front, lest a spreadsheet run
    it; --raw keeps it as it is. In TSV a backslash, tab or newline within a text is written \\\\, \\t or \\n.
    """
    from jobs.cli.export.originals import Addition
    from jobs.corpus.corpus import separator_of
    from jobs.store.report.job_summary import find_job
    from jobs.store.where.condition import Condition

    condition = Condition.parse(where) if where is not None else None
    export = Export(
        form=form,
        only=only,
        extras=extras,
        additions=[Addition.parse(addition) for addition in additions],
        defuse=defuse,
        delimiter=separator_of(delimiter) if delimiter else ",",
    )
    to_file = path is not None and str(path) != "-"
    form = export.of_file(path if to_file else None)
    with context.database() as database:
        with database.reading() as connection:
            job = find_job(connection, reference)
            if condition is not None:
                export = replace(export, condition=condition.of_job(connection, job.job_id))
        if path is not None and to_file:
            num_written = export_file(database, job, path, export)
            print_message(f"Wrote {counted(num_written, 'document')} of job {job.job_id} to {path}.")
        else:
            sys.stdout.flush()  # what follows goes past its buffer
            write_results(database, job, sys.stdout.buffer, form, export)
        if job.waiting and only not in (Only.WAITING, Only.ALL):
            what = "their lines are empty" if form is Format.TXT else "not in it"
            print_message(
                f"Job {job.job_id} has not ended; still waiting, and {what}: {counted(job.waiting, 'document')}."
            )
