"""`kvjobs metrics`: how good the rankings of a job are, by relevance judgements."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jobs.cli.context import Context
from jobs.cli.render.messages import print_message
from jobs.cli.render.output import Column, Output, output_options
from jobs.text.formatting import count, counted, figure

if TYPE_CHECKING:
    from jobs.retrieval.metrics import Measured

FIELDS = ("measure", "before", "after", "gain", "ranked_queries", "judged_queries")


@click.command()
@click.argument("reference", metavar="JOB")
@click.option(
    "--qrels",
    metavar="FILE",
    type=click.Path(path_type=Path),
    required=True,
    help="The relevance judgements, in the format of TREC or BEIR.",
)
@click.option(
    "--measure",
    "measures",
    metavar="NAME",
    multiple=True,
    help="A measure, by its name in ir-measures.  [repeatable; default: nDCG@10, RR@10, R@10, R@100]",
)
@output_options(csv=True)
@click.pass_obj
def metrics(context: Context, output: Output, reference: str, qrels: Path, measures: tuple[str, ...]) -> None:
    """Measure the rankings of a job against relevance judgements.

    Both orders are measured: the first stage's (before) and the reranked one (after). A value is the mean over the
    judged queries that are ranked, as trec_eval, BEIR and `kvjobs compare` do it; the others are left out, and how many
    there are is said. Needs the package ir-measures.
    """
    from jobs.export.rankings import ranked_queries, require_rankings
    from jobs.retrieval.metrics import MEASURES, compare, judged_queries, read_qrels
    from jobs.store.report.job_summary import find_job

    with context.database() as database:
        with database.reading() as connection:
            job = find_job(connection, reference)
        require_rankings(job, "kvjobs metrics")
        judged = read_qrels(qrels)
        before: dict[str, list[str]] = {}
        after: dict[str, list[str]] = {}
        for query in ranked_queries(database, job):
            before[query.id] = list(query.first_stage)
            after[query.id] = [candidate.id for candidate in query.candidates]
    found = compare(judged, before, after, measures or MEASURES)
    columns = (
        Column("measure", "MEASURE"),
        Column("before", "BEFORE", figure, right=True),
        Column("after", "AFTER", figure, right=True),
        Column("gain", "GAIN", lambda gain: figure(gain, is_signed=True), right=True),
    )
    counts = {"ranked_queries": len(judged_queries(judged, after)), "judged_queries": len(judged)}
    output.rows((_as_row(measured) | counts for measured in found), columns, FIELDS)
    if counts["ranked_queries"] < len(judged):
        ranked = f"{count(counts['ranked_queries'])} of {count(len(judged))} judged queries are ranked"
        print_message(f"{ranked}; the values are means over these.")
    if job.waiting:
        print_message(
            f"Job {job.label} has not ended; still waiting, and not ranked yet: {counted(job.waiting, 'query')}."
        )


def _as_row(measured: "Measured") -> dict[str, Any]:
    return {
        "measure": measured.measure,
        "before": measured.before,
        "after": measured.after,
        "gain": measured.after - measured.before,
    }
