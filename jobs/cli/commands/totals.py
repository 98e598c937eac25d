"""`kvjobs totals`: the sums of a job's results, as a whole or by a field: perplexity, characters, tokens, flags."""

from typing import TYPE_CHECKING, Any

import click

from jobs.cli.context import Context
from jobs.cli.render.messages import print_message
from jobs.cli.render.output import Column, Output, output_options
from jobs.text.formatting import NOTHING, count, counted, figure
from jobs.text.json_text import to_json

if TYPE_CHECKING:
    from jobs.store.report.totals import Totals


def _value(group: Any) -> str:
    """A value of the field as the corpus has it; numbers, lists and objects as JSON."""
    if group is None or isinstance(group, str):
        return group or NOTHING
    return to_json(group).decode()


def _flags(flags: dict[str, int]) -> str:
    from jobs.facts.flags import flags_sentence

    return flags_sentence(flags) or NOTHING


DOCUMENTS = Column("documents", "DOCUMENTS", count, right=True, rank=1)
FLAGS = Column("flags", "FLAGS", _flags, rank=2)
OF_SCORES = (
    DOCUMENTS,
    Column("unscored", "UNSCORED", count, right=True, rank=7),
    Column("num_tokens", "TOKENS", count, right=True, rank=3),
    Column("perplexity", "PERPLEXITY", figure, right=True),
    Column("word_perplexity", "BY WORD", figure, right=True, rank=5),
    Column("byte_perplexity", "BY BYTE", figure, right=True, rank=6),
    Column("bits_per_byte", "BITS/BYTE", figure, right=True, rank=4),
)
OF_TEXTS = (
    DOCUMENTS,
    Column("source_characters", "CHARS IN", count, right=True, rank=5),
    Column("target_characters", "CHARS OUT", count, right=True, rank=6),
    Column("source_tokens", "TOKENS IN", count, right=True, rank=3),
    Column("target_tokens", "TOKENS OUT", count, right=True, rank=4),
    Column("perplexity", "PERPLEXITY", figure, right=True),
)


@click.command("totals")
@click.argument("reference", metavar="JOB")
@click.option(
    "--by", "field", metavar="FIELD", help="Print a row for each value of this field of the corpus: lang, meta.lang."
)
@output_options(csv=True)
@click.pass_obj
def show_totals(context: Context, output: Output, reference: str, field: str | None) -> None:
    """Show the perplexity, size and flags of a job, or of its parts.

    Log-likelihoods are summed over all scored tokens and divided once, by the number of tokens, words or bytes: this is
    not the mean of the documents' perplexities. Documents with no scored token are counted as unscored. Documents
    without a result are left out.

    Of translations and continuations, characters and tokens are those of the sources (in) and of the results (out), and
    the perplexity is the model's own. Flags are counted by document.
    """
    from jobs.facts.providers import mixed_models
    from jobs.store.report.job_providers import providers_of
    from jobs.store.report.job_summary import find_job
    from jobs.store.report.totals import totals, totals_by

    with context.database() as database, database.reading() as connection:
        job = find_job(connection, reference)
        found = [totals(connection, job)] if field is None else totals_by(connection, job, field)
        warning = mixed_models(job, providers_of(connection, job))
    group = () if field is None else (Column("group", field, _value),)
    flags = (FLAGS,) if any(part.flags for part in found) else ()
    rows = [as_row(part) for part in found]
    names = [name for name in (rows[0] if rows else ()) if name != "group" or field is not None]
    output.rows(rows, (*group, *(OF_SCORES if job.kind.is_scored else OF_TEXTS), *flags), names)
    if warning:
        print_message(warning)
    if job.waiting:
        print_message(
            f"Job {job.label} has not ended; still waiting, and left out: {counted(job.waiting, 'document')}."
        )


def as_row(totals: "Totals") -> dict[str, Any]:
    """Every value, for JSON and CSV."""
    own = {"group": totals.group, "documents": totals.documents, "unscored": totals.unscored}
    return {**own, **totals.sums, **totals.measures, "flags": dict(totals.flags)}
