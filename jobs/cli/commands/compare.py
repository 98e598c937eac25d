"""`kvjobs compare`: two jobs side by side."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from jobs.cli.context import Context
from jobs.cli.number_types import number_type
from jobs.cli.render.output import Output, output_options
from jobs.number_ranges import Whole

if TYPE_CHECKING:
    from jobs.retrieval.metrics import Qrels

SHOWN, IN_CSV = 10, 1000  # of the largest differences
FIELDS = ("id", "a_position", "b_position", "value", "a", "b", "text")


@click.command("compare")
@click.argument("first", metavar="A")
@click.argument("second", metavar="B")
@click.option(
    "--limit",
    metavar="N",
    type=number_type(Whole(0, 100_000)),
    help=f"Show so many of the largest differences.  [default: {SHOWN}; with --csv {IN_CSV}]",
)
@click.option(
    "--reference",
    metavar="FIELD",
    help="Translations: measure both jobs against the reference translation in this field of the corpus, by chrF and "
    "BLEU.",
)
@click.option(
    "--qrels",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Rankings: measure both jobs against these relevance judgements, in the format of TREC or BEIR.",
)
@click.option(
    "--measure",
    "measures",
    metavar="NAME",
    multiple=True,
    help="With --qrels: a measure, by its name in ir-measures.  [repeatable; default: nDCG@10, RR@10, R@10, R@100]",
)
@output_options(csv=True)
@click.pass_obj
def compare_jobs(
    context: Context,
    output: Output,
    first: str,
    second: str,
    limit: int | None,
    reference: str | None,
    qrels: Path | None,
    measures: tuple[str, ...],
) -> None:
    """Compare the results and the speed of two jobs.

    A and B are jobs of the same task, such as two models, int8 and fp32, or with the KV cache and without. Documents
    are matched by id, or by position where neither corpus has ids. Speed is compared for the same amount of text, as a
    whole and by phase.

    Translations: how many are the same, and how many words differ. Scores: how far nats per token shift; where the jobs
    cut texts into other tokens (another vocabulary), bits per byte, since perplexity per token cannot be compared then.
    Rankings: overlap of the first 10, rank-biased overlap, Kendall's tau.

    The largest differences come first; --csv prints these alone. --reference needs the package sacrebleu and says
    whether a difference is significant; --qrels needs ir-measures and gives confidence intervals.

    \b
    kvjobs compare 1 2 --reference reference
    """
    from jobs.cli.render.comparison import describe_comparison
    from jobs.cli.render.layout import print_page
    from jobs.cli.render.reading_progress import counting_progress
    from jobs.comparison.compare import Bounds, Wanted, compare
    from jobs.comparison.record import as_record
    from jobs.store.report.live_job import find_live_job

    if measures and qrels is None:
        raise click.UsageError("--measure is of rankings against judgements: give --qrels FILE too.")
    default = SHOWN if output.is_table or output.is_json else IN_CSV
    wanted = Wanted(
        largest=default if limit is None else limit,
        reference=reference,
        qrels=_read(qrels),
        measures=measures,
    )
    with context.database() as database:
        with database.reading() as connection:
            a, b = (find_live_job(connection, reference, context.settings.lease_s) for reference in (first, second))
        with counting_progress("comparing", a.documents) as tell_read:
            found = compare(database, a, b, wanted, Bounds(), tell_read)
    if output.is_table or output.is_json:
        output.record(as_record(found), lambda: print_page(describe_comparison(found)))
    else:
        output.rows(({name: getattr(difference, name) for name in FIELDS} for difference in found.largest), (), FIELDS)


def _read(path: Path | None) -> "Qrels | None":
    from jobs.retrieval.metrics import read_qrels

    return None if path is None else read_qrels(path)
