"""`kvjobs show`: one job on one page."""

import click

from jobs.choices import By
from jobs.cli.context import Context
from jobs.cli.render.output import Output, output_options


@click.command()
@click.argument("reference", metavar="JOB")
@output_options()
@click.pass_obj
def show(context: Context, output: Output, reference: str) -> None:
    """Show the options, progress and failures of a job.

    Also who answered, where its time went, failed documents by reason with samples, and what to do next.
    """
    from jobs.advice.next_command import next_steps
    from jobs.cli.render.job_page import describe
    from jobs.cli.render.layout import print_page
    from jobs.facts.webhooks import webhook_rows, webhooks_sentence
    from jobs.store.report.failures import failures, finish_counts
    from jobs.store.report.job_providers import providers_of
    from jobs.store.report.job_summary import find_chain
    from jobs.store.report.live_job import find_live_job, live_jobs
    from jobs.store.report.timings.steps import summarize_steps
    from jobs.store.webhooks import list_deliveries

    with context.database() as database, database.reading() as connection:
        job = find_live_job(connection, reference, context.settings.lease_s)
        phases = summarize_steps(connection, job.job_id, By.PHASE)
        bad = failures(connection, job)
        answers = providers_of(connection, job)
        finishes = finish_counts(connection, job)
        stages = live_jobs(connection, find_chain(connection, job), context.settings.lease_s)
        deliveries = list_deliveries(connection, stages[0].job_id)
    steps = next_steps(job, bad, stages)
    found = {"phases": phases, "failures": bad, "answers": answers, "finishes": finishes}
    found |= {"next": steps[0].command, "next_steps": steps}
    if len(stages) > 1:
        found["stages"] = [stage.as_row() for stage in stages]
    if deliveries:
        found["webhooks"] = webhook_rows(deliveries)
    said = webhooks_sentence(deliveries) if deliveries else ""
    page = describe(job, phases, bad, answers, steps, finishes, stages, webhooks=said)
    output.record(job.as_row() | found, lambda: print_page(page))
