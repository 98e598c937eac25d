"""`kvjobs submit`: make a job of a corpus; with --wait, follow it and write its results."""

import contextlib
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from jobs.cli.context import Context, this_command
from jobs.cli.job_exit import exit_code_of_chain, print_ended_job, watch_command
from jobs.cli.render.messages import print_message, silence_messages
from jobs.cli.render.submitted import describe_stages, describe_submitted
from jobs.cli.route_options import planned_routes
from jobs.cli.submit_options import SubmitOptions, submit_options
from jobs.cli.task_options import GroupedCommand, is_given, parse_task_options, refuse_options, task_options
from jobs.cli.then_option import read_stages
from jobs.dispatch.embedded_worker import EmbeddedWorker
from jobs.errors import SpecError
from jobs.queues import CPU
from jobs.routing.plan import AUTO
from jobs.spec import JobSpec
from jobs.stage import Stage
from jobs.submission.submitted_job import PriorState, SubmittedJob
from jobs.tasks.kind import PayloadKind
from jobs.tasks.kinds import KINDS
from jobs.tasks.score import SOURCE_FIELD, TARGET_FIELD
from jobs.tasks.shared_options import TEXT_FIELD
from jobs.tasks.translate import TranslateOptions
from jobs.text.formatting import visible
from jobs.worker_port import worker_port

if TYPE_CHECKING:
    from jobs.corpus.corpus import Corpus
    from jobs.settings import Settings
    from jobs.store.database import Database
    from jobs.store.report.job_summary import JobSummary


def _one_corpus(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> str:
    """The argument CORPUS, which must be a single one: a shell makes several of a pattern without quotes."""
    if len(values) > 1:
        raise click.UsageError(
            f"name one corpus, not {len(values)}; for several files as one, name their folder, or a pattern in quotes: "
            "'part-*.jsonl'"
        )
    return values[0]


@click.command(cls=GroupedCommand)
@click.argument("corpus", metavar="CORPUS", nargs=-1, required=True, callback=_one_corpus)
@submit_options
@task_options
@click.pass_obj
def submit(context: Context, /, **values: Any) -> int:
    """Submit CORPUS to be translated, scored, reranked or continued.

    CORPUS is a file of JSON Lines with "id" and "text" (or txt, csv, tsv, parquet; .gz, .zst, .xz and .bz2 are
    unpacked), a folder of such files, a pattern in quotes ('part-*.jsonl.gz'), or - for standard input. The same corpus
    with the same options is the same job: submit it again to continue where it was interrupted. (A cancelled job is
    refused: kvjobs retry continues it, --again makes a new one.)

    To score with a translation model, a line has "source" and "target". To rerank, a line has "query" and "candidates",
    a list of {"id", "text", "score"} where "score" (of the first stage) is optional; or CORPUS is a BEIR folder
    (corpus.jsonl and queries.jsonl), and --run names the first stage's run.

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
    if not (options.wait and is_alone and options.queue == CPU) or options.dry_run:
        yield None
        return
    worker = EmbeddedWorker(settings)
    try:
        yield worker
    finally:
        if not worker.has_job:
            worker.kill()


def _check_and_submit(context: Context, options: SubmitOptions, early: EmbeddedWorker | None) -> int:
    spec = _admit(options, context.settings)
    stages = read_stages(options.then, spec, context.settings)
    for model_spec in (spec, *_model_specs(stages)):
        _print_skipped(model_spec)
    corpus = _corpus(options, spec)
    _check_results(options, corpus)
    _print_advice(context, options, spec, corpus)
    for model_spec in _model_specs(stages):
        _print_model_advice(context, options, model_spec)
    if options.dry_run:
        return _dry_run(context, options, spec, stages, corpus)
    return _submit(context, options, spec, stages, corpus, early)


def _model_specs(stages: Sequence[Stage]) -> list[JobSpec]:
    """The specifications of the stages that have a model."""
    return [stage.spec for stage in stages if isinstance(stage.spec, JobSpec)]


def _admit(options: SubmitOptions, settings: "Settings") -> JobSpec:
    """The spec of the job: its models exist, and can do what the options ask."""
    of_task, fallback = parse_task_options(options.task, options.of_task), not options.no_fallback
    if not isinstance(of_task, TranslateOptions) or not (routes := planned_routes(options, settings)):
        return worker_port().admit(options.task, options.model, of_task, settings, options.order, fallback=fallback)
    is_auto = options.model == AUTO
    return worker_port().admit_routes(
        routes,
        AUTO if is_auto else None,
        of_task,
        settings,
        options.order,
        fallback=fallback,
        leave_out=print_message if is_auto else None,
    )


def _print_skipped(spec: JobSpec) -> None:
    """Say which providers cannot do the job, and why."""
    for choice in spec.providers.choices:
        if choice.skipped:
            print_message(f"{choice} is skipped: {choice.skipped}.")


def _corpus(options: SubmitOptions, spec: JobSpec) -> "Corpus":
    """How the corpus is read, which the task decides, and for scoring the model."""
    from jobs.corpus.corpus import Corpus, columns_of

    if spec.payload_kind is PayloadKind.PAIRS:
        refuse_options([TEXT_FIELD], spec.model, "scores pairs of a source and a target")
    else:
        refuse_options([SOURCE_FIELD, TARGET_FIELD], spec.model, "is a language model, which scores a text")
    return Corpus(
        path=options.corpus,
        format=options.form,
        delimiter=options.delimiter,
        columns=columns_of(options.columns) if options.columns is not None else None,
        encoding=options.encoding,
        max_line_bytes=options.max_text,
        in_windows=spec.kind.in_windows,
        payload_kind=spec.payload_kind,
        id_field=options.id_field,
        **_languages(options),
        **{name: options.of_task[name] for name in ("text_field", "source_field", "target_field", "run")},
    )


def _languages(options: SubmitOptions) -> dict[str, Any]:
    """Where a document's language is, if models are chosen by it."""
    if not KINDS[options.task].is_between_languages or options.model != AUTO:
        return {}
    default = options.of_task["source_language"] if is_given("source_language") else None
    return {"language_field": options.of_task["language_field"], "default_language": default}


def _check_results(options: SubmitOptions, corpus: "Corpus") -> None:
    from jobs.export.export_file import check_results_file

    if options.output and str(options.output) != "-":
        check_results_file(options.output, task=options.task, corpus=corpus.source, is_chain=bool(options.then))


def _print_advice(context: Context, options: SubmitOptions, spec: JobSpec, corpus: "Corpus") -> None:
    _print_model_advice(context, options, spec)
    if options.model is None and spec.model == spec.models[0].model:
        print_message(f"No --model was given: {spec.kind.words.doing} with the bundled {spec.model}.")
    if corpus.path == "-" and sys.stdin.isatty():
        form = "JSON Lines" if options.form in (None, "jsonl") else options.form
        print_message(f"Reading {form} from the terminal; end with Ctrl-D.")


def _print_model_advice(context: Context, options: SubmitOptions, spec: JobSpec) -> None:
    for advice in worker_port().advise(spec, context.settings.models_dir, options.queue):
        print_message(advice)


def _dry_run(context: Context, options: SubmitOptions, spec: JobSpec, stages: Sequence[Stage], corpus: "Corpus") -> int:
    from jobs.cli.render.dry_run import as_record, describe
    from jobs.cli.render.reading_progress import reading_progress
    from jobs.store.report.timings.speed import past_speed
    from jobs.text.json_text import to_json

    settings = context.settings
    spool = settings.home / "spool"
    with reading_progress() as on_progress:
        dry_run = worker_port().count_work(corpus, spec, stages, settings.models_dir, spool, on_progress)
    with context.database() as database, database.reading() as connection:
        tokens_per_s = past_speed(connection, spec.model_revision, spec.task)
    if options.as_json:
        click.echo(to_json(as_record(dry_run, spec, stages, tokens_per_s)).decode())
        return 0
    for line in describe(dry_run, spec, stages, tokens_per_s):
        click.echo(visible(line))
    return 0


def _submit(
    context: Context,
    options: SubmitOptions,
    spec: JobSpec,
    stages: Sequence[Stage],
    corpus: "Corpus",
    early: EmbeddedWorker | None,
) -> int:
    from jobs.store.report.job_summary import find_chain, find_job

    with context.database() as database:
        submitted = _ingest(context, database, options, spec, stages, corpus)
        _refuse_cancelled(submitted)
        with database.reading() as connection:
            job = find_job(connection, str(submitted.job_id))
            chain: Sequence[JobSummary] = find_chain(connection, job)
        stays_paused = job.paused and not options.wait  # --wait resumes it
        for message in describe_submitted(submitted, job, asked_name=options.name, stays_paused=stays_paused):
            print_message(message)
        if len(chain) > 1:
            print_message(describe_stages(chain))
        if options.quiet:
            click.echo(submitted.job_id)
            sys.stdout.flush()  # a script that reads the number need not wait for the results
        _wake_workers(context, database, submitted)
        code = 0
        if options.wait:
            from jobs.cli.wait_for_job import wait_for_job

            results, tolerance = options.results, options.tolerance
            again = watch_command(context, job.job_id, results, tolerance, options.as_json)
            chain = wait_for_job(context.settings, database, job, results, tolerance, again=again, early=early)
            job, code = chain[0], exit_code_of_chain(chain, tolerance)
        elif stays_paused:
            print_message(f"To resume it: kvjobs resume {job.job_id}")
        else:
            _print_next_command(database, submitted, chain, options.queue, context.settings.lease_s)
        if options.as_json:
            print_ended_job(context, database, job, code, chain, already=submitted.prior_state, output=options.results)
    return code


def _ingest(
    context: Context,
    database: "Database",
    options: SubmitOptions,
    spec: JobSpec,
    stages: Sequence[Stage],
    corpus: "Corpus",
) -> SubmittedJob:
    from jobs.cli.render.reading_progress import reading_progress
    from jobs.submission.submit import submit as submit_corpus

    try:
        with reading_progress() as on_progress:
            return submit_corpus(
                database,
                corpus,
                spec,
                stages=stages,
                name=options.name,
                priority=options.priority,
                queue=options.queue,
                strict=options.strict,
                max_rejected=options.tolerance,
                again=options.again,
                spool=context.settings.home / "spool",
                on_progress=on_progress,
            )
    except KeyboardInterrupt:
        advice = "Interrupted; the documents read so far are kept. To continue"
        if corpus.path == "-":  # a pipe cannot be read again
            advice = "Interrupted. To continue, send the same input again"
        raise KeyboardInterrupt(f"{advice}: {this_command()}") from None


def _refuse_cancelled(submitted: SubmittedJob) -> None:
    """No worker processes a cancelled job: exit code 0 would be wrong, and --wait would never end."""
    if submitted.prior_state is PriorState.CANCELLED:
        raise SpecError(
            f"job {submitted.job_id} has this corpus and these options, and was cancelled; to continue it: kvjobs "
            f"retry {submitted.job_id}, and for a new job submit with --again"
        )


def _wake_workers(context: Context, database: "Database", submitted: SubmittedJob) -> None:
    """Send hints through the broker, after the commit, so that no worker looks for rows that are not there yet."""
    if not context.settings.broker or submitted.prior_state is PriorState.COMPLETE:
        return
    from jobs.dispatch.hints import hint_at_once

    if problem := hint_at_once(database, context.settings):
        print_message(f"The workers could not be notified ({problem}); they find the job by themselves within seconds.")


def _print_next_command(
    database: "Database", submitted: SubmittedJob, chain: "Sequence[JobSummary]", queue: str, silence_s: float
) -> None:
    from jobs.advice.waiting_reasons import jobs_ahead_sentence
    from jobs.cli.stalled_job import no_worker_message, read_jobs_ahead

    if submitted.prior_state is PriorState.COMPLETE:
        whole = " --chain" if len(chain) > 1 else ""
        print_message(f"Results: kvjobs export {submitted.job_id}{whole} -o FILE")
        return
    if no_worker := no_worker_message(database, queue, chain[0].model, silence_s):
        print_message(no_worker)
    elif (ahead := read_jobs_ahead(database, submitted.job_id)).jobs:
        print_message(jobs_ahead_sentence(ahead))
    print_message(f"Follow it: kvjobs watch {submitted.job_id}")
