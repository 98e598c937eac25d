"""`kvjobs submit`: make a job of a corpus; with --wait, follow it and write its results."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from jobs.cli.context import Context, this_command
from jobs.cli.job_exit import exit_code_of_chain, print_ended_job, watch_command
from jobs.cli.render.messages import print_message, silence_messages
from jobs.cli.render.submitted import describe_stages, describe_submitted
from jobs.cli.submit_options import SubmitOptions, submit_options
from jobs.cli.task_options import GroupedCommand, task_options
from jobs.dispatch.embedded_worker import EmbeddedWorker
from jobs.queues import CPU
from jobs.submission.submitted_job import PriorState, SubmittedJob
from jobs.system.process import how_it_ended
from jobs.text.formatting import counted, visible

if TYPE_CHECKING:
    from jobs.operations.plan import CorpusFile, SubmitPlan
    from jobs.settings import Settings
    from jobs.store.database import Database
    from jobs.store.report.job_summary import JobSummary


def _one_corpus(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> str | None:
    """The argument CORPUS, of which there is at most one: a shell makes several of a pattern without quotes."""
    if len(values) > 1:
        raise click.UsageError(
            f"name one corpus, not {len(values)}; for several files as one, name their folder, or a pattern in quotes: "
            "'part-*.jsonl'"
        )
    return values[0] if values else None


@click.command(cls=GroupedCommand)
@click.argument("corpus", metavar="CORPUS", nargs=-1, callback=_one_corpus)
@submit_options
@task_options
@click.pass_obj
def submit(context: Context, /, **values: Any) -> int:
    """Submit CORPUS to be translated, scored, reranked or continued.

    CORPUS is a file of JSON Lines with "id" and "text" (or txt, csv, tsv, parquet; .gz, .zst, .xz and .bz2 are
    unpacked), a folder of such files, a pattern in quotes ('part-*.jsonl.gz'), an address of any of these (s3://, gs://,
    az://, hf://datasets/, https://), or - for standard input; or --from-sql asks a database. The same corpus with the
    same options is the same job: submit it again to continue where it was interrupted. (A cancelled job is refused:
    kvjobs retry continues it, --again makes a new one.)

    To score with a translation model, a line has "source" and "target". To rerank, a line has "query" and "candidates",
    a list of {"id", "text", "score"} where "score" (of the first stage) is optional; or CORPUS is a BEIR folder
    (corpus.jsonl and queries.jsonl), and --run names the first stage's run.

    Files whose texts are to be translated (docs/files.md), one or a folder of them, come back as they were: with
    --wait -o FOLDER, or by kvjobs export.

    A batch file of OpenAI, lines of {"custom_id", "method", "url", "body"}, says task and model itself; its results are
    written as OpenAI's output lines.

    With --wait the results go to standard output. Scores are written only if -o names a file, since they mostly serve
    to filter the corpus, as in the second example. The exit code is 0 if all documents succeeded, 3 if some did not.

    \b
    kvjobs submit corpus.jsonl --wait -o translated.jsonl
    kvjobs submit corpus.jsonl --task score --max-rejected 1% --wait &&
        kvjobs export last --where "perplexity < 50" --format original
    """
    options = SubmitOptions.of(values)
    if options.quiet:
        silence_messages()
    context = context.with_flags(openai_price_per_million=options.openai_price_per_million)
    with _early_worker(context.settings, options) as early:
        return _check_and_submit(context, options, early)


@contextlib.contextmanager
def _early_worker(settings: "Settings", options: SubmitOptions) -> Iterator[EmbeddedWorker | None]:
    """A worker that loads while the command does. It waits for its job, and is killed at the end of the block if it got
    none: it has touched nothing. None where other workers are likely to serve the job, or it needs a GPU."""
    is_alone = not settings.broker and settings.database_url.startswith("sqlite")
    if not (options.wait and is_alone and options.request.job.queue == CPU) or options.dry_run:
        yield None
        return
    worker = EmbeddedWorker(settings)
    try:
        yield worker
    finally:
        if not worker.has_job:
            worker.kill()


def _check_and_submit(context: Context, options: SubmitOptions, early: EmbeddedWorker | None) -> int:
    from jobs.operations.plan import CorpusFile

    if options.from_sql is None or options.source is None:
        return _plan_and_submit(context, options, CorpusFile(path=options.corpus or ""), early)
    from jobs.operations.sql_corpus import opened_query
    from jobs.operations.submit import spool_of

    with opened_query(options.source, options.from_sql, spool_of(context.settings)) as query:
        return _plan_and_submit(context, options, query.file, early, fetch=query.fetch)


def _plan_and_submit(
    context: Context,
    options: SubmitOptions,
    file: "CorpusFile",
    early: EmbeddedWorker | None,
    fetch: Callable[[], int] | None = None,
) -> int:
    """`fetch` fills the file once the plan is checked, and returns the number of rows."""
    from jobs.operations.plan import advice_on, plan_submit

    plan = plan_submit(options.request, file, context.settings, tell=print_message)
    _check_results(options, plan)
    for sentence in advice_on(plan, context.settings):
        print_message(sentence)
    if fetch is not None:
        print_message(f"The query gave {counted(fetch(), 'row')}.")
    elif plan.corpus.is_stdin and sys.stdin.isatty():
        form = "JSON Lines" if plan.corpus.format in (None, "jsonl") else plan.corpus.format
        print_message(f"Reading {form} from the terminal; end with Ctrl-D.")
    if options.dry_run:
        return _dry_run(context, options, plan)
    return _submit(context, options, plan, early)


def _check_results(options: SubmitOptions, plan: "SubmitPlan") -> None:
    from jobs.export.export_file import check_results_file

    if options.output and str(options.output) != "-":
        corpus, is_chain = plan.corpus, bool(plan.stages)
        check_results_file(
            options.output, task=plan.spec.task, corpus=corpus.source, reading=corpus.reading, is_chain=is_chain
        )


def _dry_run(context: Context, options: SubmitOptions, plan: "SubmitPlan") -> int:
    from jobs.cli.render.dry_run import describe
    from jobs.cli.render.reading_progress import reading_progress
    from jobs.operations.submit import count_plan
    from jobs.submission.dry_run import dry_run_record
    from jobs.text.json_text import to_json

    with context.database() as database, reading_progress() as on_progress:
        dry_run, tokens_per_s = count_plan(database, plan, context.settings, on_progress)
    if options.as_json:
        click.echo(to_json(dry_run_record(dry_run, plan.spec, plan.stages, tokens_per_s)).decode())
        return 0
    for line in describe(dry_run, plan.spec, plan.stages, tokens_per_s):
        click.echo(visible(line))
    return 0


def _submit(context: Context, options: SubmitOptions, plan: "SubmitPlan", early: EmbeddedWorker | None) -> int:
    from jobs.operations.submit import wake_workers
    from jobs.store.report.job_summary import find_chain, find_job

    with context.database() as database:
        submitted = _ingest(context, database, plan)
        with database.reading() as connection:
            job = find_job(connection, str(submitted.job_id))
            chain: Sequence[JobSummary] = find_chain(connection, job)
        stays_paused = job.paused and not options.wait  # --wait resumes it
        for message in describe_submitted(submitted, job, asked_name=plan.request.job.name, stays_paused=stays_paused):
            print_message(message)
        if len(chain) > 1:
            print_message(describe_stages(chain))
        if options.quiet:
            click.echo(submitted.job_id)
            sys.stdout.flush()  # a script that reads the number need not wait for the results
        if problem := wake_workers(database, submitted, context.settings):
            print_message(problem)
        code = 0
        if options.wait:
            from jobs.cli.wait_for_job import wait_for_job

            results, tolerance = options.results, plan.request.job.max_rejected
            again = watch_command(context, job.job_id, results, tolerance, options.as_json)
            chain = wait_for_job(context.settings, database, job, results, tolerance, again=again, early=early)
            job, code = chain[0], exit_code_of_chain(chain, tolerance)
            code = _after_the_end(context, database, options, chain, code)
        elif stays_paused:
            print_message(f"To resume it: kvjobs resume {job.job_id}")
        else:
            _print_next_command(database, submitted, chain, plan.request.job.queue, context.settings.lease_s)
        if options.as_json:
            output = str(options.results) if options.results else None
            print_ended_job(context, database, job, code, chain, already=submitted.prior_state, output=output)
    return code


def _after_the_end(
    context: Context, database: "Database", options: SubmitOptions, chain: "Sequence[JobSummary]", code: int
) -> int:
    """Send the webhooks of the job, whose worker may have ended with it, and run the command of --on-end; the exit
    code. Where the command fails and all documents succeeded, it is that of an operational failure."""
    from jobs.dispatch.webhooks import MOST_S_FOR_WEBHOOKS, send_due

    send_due(database, context.settings, MOST_S_FOR_WEBHOOKS, tell=print_message)
    if options.on_end is None:
        return code
    environ = os.environ | {"KVJOBS_JOB": str(chain[0].job_id), "KVJOBS_STATE": chain[-1].state}
    # Standard output is that of the results.
    ended = subprocess.run(["sh", "-c", options.on_end], env=environ, stdout=sys.stderr, check=False).returncode
    if ended:
        print_message(f"The command of --on-end {how_it_ended(ended)}.")
    return code or int(bool(ended))


def _ingest(context: Context, database: "Database", plan: "SubmitPlan") -> SubmittedJob:
    from jobs.cli.render.reading_progress import reading_progress
    from jobs.control.actions import this_user
    from jobs.operations.submit import submit_plan

    try:
        with reading_progress() as on_progress:
            return submit_plan(database, plan, context.settings, on_progress, owner=this_user())
    except KeyboardInterrupt:
        advice = "Interrupted; the documents read so far are kept. To continue"
        if plan.corpus.is_stdin:  # a pipe cannot be read again
            advice = "Interrupted. To continue, send the same input again"
        raise KeyboardInterrupt(f"{advice}: {this_command()}") from None


def _print_next_command(
    database: "Database", submitted: SubmittedJob, chain: "Sequence[JobSummary]", queue: str, silence_s: float
) -> None:
    from jobs.advice.next_command import target_of_files
    from jobs.advice.waiting_reasons import jobs_ahead_sentence
    from jobs.operations.stalled_job import no_worker_message, read_jobs_ahead

    if submitted.prior_state is PriorState.COMPLETE:
        files = target_of_files(chain[0])
        whole = " --chain" if len(chain) > 1 and files is None else ""
        print_message(f"Results: kvjobs export {submitted.job_id}{whole} -o {files or 'FILE'}")
        return
    if no_worker := no_worker_message(database, queue, chain[0].model, silence_s):
        print_message(no_worker)
    elif (ahead := read_jobs_ahead(database, submitted.job_id)).jobs:
        print_message(jobs_ahead_sentence(ahead))
    print_message(f"Follow it: kvjobs watch {submitted.job_id}")
