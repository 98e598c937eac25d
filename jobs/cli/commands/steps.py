"""`kvjobs steps`: where a job spent its time."""

from dataclasses import asdict

import click

from jobs.choices import By
from jobs.cli.choice import SuggestingChoice
from jobs.cli.context import Context
from jobs.cli.render.messages import print_message
from jobs.cli.render.output import Column, Output, output_options
from jobs.text.formatting import count, figure, percent

FIELDS = ("group", "calls", "rows", "tokens", "seconds", "share", "mean_ms", "mean_rows")


@click.command()
@click.argument("reference", metavar="JOB")
@click.option(
    "--by",
    type=SuggestingChoice(By, case_sensitive=False),
    default=By.PHASE.value,
    show_default=True,
    help="Group the times by phase, decoder step, or worker and lane.",
)
@output_options(csv=True)
@click.pass_obj
def steps(context: Context, output: Output, reference: str, by: By) -> None:
    """Show where a job spent its time.

    Seconds are summed over all lanes. With --by step, the milliseconds of a call stay flat as the translation grows if
    the KV cache works.
    """
    from jobs.store.report.job_summary import find_job
    from jobs.store.report.timings.steps import summarize_steps

    with context.database() as database, database.reading() as connection:
        job = find_job(connection, reference)
        summaries = summarize_steps(connection, job.job_id, by)
    rows = [asdict(summary) | {"mean_ms": summary.mean_ms, "mean_rows": summary.mean_rows} for summary in summaries]
    if output.is_table and not rows:
        print_message(
            f"Job {job.label} has no step times: it filters, has not started, or was submitted with --timing off."
        )
        return
    title = {By.PHASE: "PHASE", By.STEP: "STEP", By.LANE: "WORKER/LANE"}[by]
    output.rows(
        rows,
        (
            Column("group", title, right=by is By.STEP),
            Column("seconds", "SECONDS", figure, right=True),
            Column("share", "SHARE", percent, right=True, rank=1),
            Column("calls", "CALLS", count, right=True, rank=3),
            Column("mean_ms", "MS/CALL", figure, right=True, rank=2),
            Column("mean_rows", "ROWS/CALL", figure, right=True, rank=4),
            Column("tokens", "TOKENS", count, right=True, rank=5),
        ),
        FIELDS,
    )
