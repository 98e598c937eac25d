"""`kvjobs submit`: a corpus becomes a job; with --wait, from here to the results."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jobs.cli.context import Context, this_command
from jobs.cli.job_exit import MaxRejected, exit_code_of, json_option, print_job, watch_command
from jobs.cli.render.messages import print_message, silence_messages
from jobs.cli.render.task_terms import TASK_TERMS
from jobs.cli.render.terminal import visible
from jobs.cli.task_options import GroupedCommand, make_options, refuse_fields, task_options
from jobs.errors import SpecError
from jobs.formatting import counted
from jobs.queues import CPU, check_queue
from jobs.spec import JobSpec, Task, Timing
from jobs.submission.job_name import check_name
from jobs.submission.submitted_job import PriorState, SubmittedJob
from jobs.submission.tolerance import Tolerance
from jobs.worker_port import worker_port

if TYPE_CHECKING:
    from jobs.corpus.corpus import Corpus
    from jobs.store.database import Database
    from jobs.store.report.job_summary import JobSummary

PRIORITIES = {"low": -10, "normal": 0, "high": 10}


class Priority(click.ParamType[int]):
    """low, normal, high, or a number: higher goes first."""

    name = "priority"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return PRIORITIES[value] if value in PRIORITIES else int(value)
        except ValueError:
            self.fail(f"{value!r} is neither low, normal, high nor a whole number", param, ctx)


@click.command(cls=GroupedCommand)
@click.argument("corpus", metavar="CORPUS")
@click.option(
    "--task",
    type=click.Choice([task.value for task in Task]),
    default=Task.TRANSLATE.value,
    show_default=True,
    help="What to do with each document.",
)
@click.option("--model", metavar="NAME", help="A model's name, or its folder.  [default: the bundled one for the task]")
@click.option("--wait", is_flag=True, help="Bring a worker if none serves the job, show progress, write the results.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="With --wait: the file of results; - is standard output.  [default: standard output; for scores none]",
)
@click.option("--name", help="A name that may be used in place of the job's number.")
@click.option(
    "--priority",
    type=Priority(),
    default="normal",
    show_default=True,
    metavar="P",
    help="low, normal, high, or a number; higher goes first.",
)
@click.option(
    "--queue",
    default=CPU,
    show_default=True,
    metavar="NAME",
    help="cpu: any worker may do it; gpu: only workers that have one.",
)
@click.option("--format", "form", metavar="FORMAT", help="jsonl, txt, csv or tsv.  [default: by the file's name]")
@click.option("--delimiter", metavar="SIGN", help="CSV, TSV: what stands between two cells: ';', '|', tab ...")
@click.option(
    "--id-field",
    default="id",
    show_default=True,
    help="The field that identifies a document; where it is missing or empty, the number of the line does.",
)
@click.option("--text-field", default="text", show_default=True, help="The field to translate or to score.")
@click.option("--strict", is_flag=True, help="Refuse the whole corpus if a single line cannot be read.")
@click.option(
    "--max-rejected",
    "tolerance",
    type=MaxRejected(),
    metavar="N|P%",
    help="Refuse the corpus if more than so many lines cannot be read (10, 0.5%); up to so many, --wait ends with 0 if "
    "all others succeed.",
)
@click.option("--dry-run", is_flag=True, help="Read the corpus and say what would be done; change nothing.")
@click.option("-q", "--quiet", is_flag=True, help="Print the job's number and nothing else but errors.")
@json_option
@click.option("--again", is_flag=True, help="Make a new job even if this corpus was submitted before.")
@click.option(
    "--timing",
    type=click.Choice([timing.value for timing in Timing]),
    default=Timing.STEPS.value,
    show_default=True,
    help="How much of the step timing is stored.",
)
@task_options
@click.pass_obj
def submit(
    context: Context,
    /,
    corpus: str,
    task: str,
    model: str | None,
    wait: bool,
    output: Path | None,
    name: str | None,
    priority: int,
    queue: str,
    form: str | None,
    delimiter: str | None,
    id_field: str,
    strict: bool,
    tolerance: Tolerance | None,
    dry_run: bool,
    quiet: bool,
    as_json: bool,
    again: bool,
    **options: Any,
) -> int:
    """Submit CORPUS to be translated, scored or reranked.

    CORPUS is a file of JSON Lines with "id" and "text" (or txt, csv, tsv; gz and zst by suffix), or - for standard
    input. The same corpus and options are the same job: submit it again to go on where it was interrupted. (One that
    was cancelled is refused: kvjobs retry goes on with it, --again makes another.)

    To score with a translation model, a line has "source" and "target". To rerank, it has "query" and "candidates":
    a list of {"id", "text", "score"}, the score of the first stage being optional; or CORPUS is a folder as BEIR has
    them, and --run names the first stage's run.

    With --wait the results go to standard output, but scores only where -o says so: what is wanted of them is mostly
    the corpus without its worst lines. The exit code is that of `kvjobs wait`.

    \b
    kvjobs submit corpus.jsonl --task score --max-rejected 1% --wait &&
        kvjobs export last --where "perplexity < 50" --format original
    """
    from jobs.cli.export.export_file import check_format, format_of
    from jobs.cli.export.result_file import check_place

    if output and not wait:
        raise SpecError("-o needs --wait; without it, fetch the results later with: kvjobs export JOB -o FILE")
    if strict and tolerance:
        raise SpecError("--strict is --max-rejected 0; give one of the two")
    if output is None and wait and task != Task.SCORE:
        output = Path("-")
    _check_outputs(quiet, as_json, dry_run, output)
    if quiet:
        silence_messages()
    check_name(name)
    check_queue(queue)
    task_options = make_options(Task(task), options)
    port = worker_port()
    spec = port.admit(Task(task), model, context.settings.models_dir, task_options)
    source = _corpus(corpus, spec, form, delimiter, id_field, options)
    if output and str(output) != "-":
        check_place(output, corpus=source.source)
        check_format(format_of(output), spec.task)
    for advice in port.advise(spec, context.settings.models_dir, queue):
        print_message(advice)
    if model is None:
        print_message(f"No --model was given: {TASK_TERMS[task].doing} with the bundled {spec.model}.")
    if source.path == "-" and sys.stdin.isatty():
        print_message(
            f"Reading {'JSON Lines' if form in (None, 'jsonl') else form} from the terminal; end with Ctrl-D."
        )
    if dry_run:
        return _dry_run(context, source, spec, as_json)
    with context.database() as database:
        submitted = _ingest(
            context,
            database,
            source,
            spec,
            name=name,
            priority=priority,
            queue=queue,
            strict=strict,
            max_rejected=tolerance,
            again=again,
        )
        _refuse_cancelled(submitted)
        job = _find(database, submitted)
        rests = job.paused and not wait  # with --wait it goes on
        print_message(_told(submitted, _paused(job) if rests else None))
        if name is not None and name != submitted.name:
            print_message(f"It keeps the name that it has, {submitted.name!r}; it did not get {name!r}.")
        if 0 < submitted.without_id < submitted.documents - submitted.rejected:
            print_message(
                f"{counted(submitted.without_id, 'document')} without an id: the number of the line stands for it."
            )
        if quiet:
            click.echo(submitted.job_id)
            sys.stdout.flush()  # whoever waits for the number need not wait for the results
        _wake_workers(context, database, submitted)
        code = 0
        if wait:
            from jobs.cli.wait_for_job import wait_for_job

            reattach = watch_command(context, submitted.job_id, output, tolerance, as_json)
            job = wait_for_job(context.settings, database, job, output, tolerance, again=reattach)
            code = exit_code_of(job, tolerance)
        elif rests:
            print_message(f"To go on: kvjobs resume {submitted.job_id}")
        else:
            _say_next(context, database, submitted, queue, spec.model)
    if as_json:
        print_job(job, code, already=submitted.prior_state, output=output)
    return code


def _check_outputs(quiet: bool, as_json: bool, dry_run: bool, output: Path | None) -> None:
    """Standard output is for one thing at a time."""
    if quiet and as_json:
        raise SpecError("--json and -q exclude one another; give one of the two")
    if quiet and dry_run:
        raise SpecError("--dry-run makes no job, so there is no number to print; leave -q out")
    if (quiet or as_json) and str(output) == "-" and not dry_run:
        raise SpecError(
            f"{'-q' if quiet else '--json'} takes standard output, where the results would go too; give them a file "
            "with -o FILE"
        )


def _find(database: "Database", submitted: SubmittedJob) -> "JobSummary":
    from jobs.store.report.job_summary import find_job

    with database.reading() as connection:
        return find_job(connection, str(submitted.job_id))


def _corpus(
    path: str, spec: JobSpec, form: str | None, delimiter: str | None, id_field: str, options: Mapping[str, Any]
) -> "Corpus":
    """How the corpus is read: as the task wants it, and of scoring the model."""
    from jobs.corpus.corpus import Corpus
    from jobs.corpus.payload import PayloadKind

    payload_kind = PayloadKind.of(spec)
    if payload_kind is PayloadKind.PAIRS:
        refuse_fields(["text_field"], spec.model, "scores pairs of a source and a target")
    elif payload_kind is PayloadKind.TEXT and spec.task is Task.SCORE:
        refuse_fields(["source_field", "target_field"], spec.model, "is a language model, which scores a text")
    fields = {name: options[name] for name in ("text_field", "source_field", "target_field")}
    how = {"format": form, "delimiter": delimiter, "id_field": id_field, "run": options["run"]}
    return Corpus(path=path, payload_kind=payload_kind, **how, **fields)


def _dry_run(context: Context, source: "Corpus", spec: JobSpec, as_json: bool) -> int:
    from jobs.cli.render.dry_run import as_record, describe
    from jobs.cli.render.output import to_json
    from jobs.cli.render.reading_progress import reading_progress
    from jobs.store.report.speed import past_speed

    settings = context.settings
    with reading_progress() as on_progress:
        dry_run = worker_port().count_work(source, spec, settings.models_dir, settings.home / "spool", on_progress)
    with context.database() as database, database.reading() as connection:
        tokens_per_s = past_speed(connection, spec.model_revision, spec.task)
    if as_json:
        click.echo(to_json(as_record(dry_run, spec, tokens_per_s)).decode())
        return 0
    for line in describe(dry_run, spec, tokens_per_s):
        click.echo(visible(line))
    return 0


def _ingest(context: Context, database: "Database", source: "Corpus", spec: JobSpec, **how: Any) -> SubmittedJob:
    from jobs.cli.render.reading_progress import reading_progress
    from jobs.submission.submit import submit as submit_corpus

    try:
        with reading_progress() as on_progress:
            return submit_corpus(
                database, source, spec, spool=context.settings.home / "spool", on_progress=on_progress, **how
            )
    except KeyboardInterrupt:
        told = "Interrupted; what is read is kept. To go on"
        if source.path == "-":  # what came through a pipe or was typed is gone with it
            told = "Interrupted. To go on, send the same input again"
        raise KeyboardInterrupt(f"{told}: {this_command()}") from None


def _wake_workers(context: Context, database: "Database", submitted: SubmittedJob) -> None:
    """After the commit: no worker may come to a row that is not there. Without a broker they look for themselves."""
    if not context.settings.broker or submitted.prior_state is PriorState.COMPLETE:
        return
    from jobs.dispatch.hints import hint_at_once

    if problem := hint_at_once(database, context.settings):
        print_message(f"The workers could not be told ({problem}); they find the work by themselves within seconds.")


def _refuse_cancelled(submitted: SubmittedJob) -> None:
    """Nobody works on what was cancelled: neither success nor a wait without an end would be an honest answer."""
    if submitted.prior_state is PriorState.CANCELLED:
        raise SpecError(
            f"job {submitted.job_id} was submitted before with this corpus and these options, and cancelled; to go on "
            f"with it: kvjobs retry {submitted.job_id}, and for a new job submit it with --again"
        )


def _paused(job: "JobSummary") -> str:
    return "is paused" + (f" ({job.reason})" if job.reason else "")


def _told(submitted: SubmittedJob, paused: str | None) -> str:
    """One sentence: what there is now. `paused` says so of a job that does not go on."""
    label = f"Job {submitted.job_id}" + (f" ({submitted.name})" if submitted.name else "")
    size = counted(submitted.documents, "document")
    if submitted.rejected:
        share = "all" if submitted.rejected == submitted.documents else f"{submitted.rejected:,}"
        size += f", {share} of them rejected (kvjobs show {submitted.job_id} says why)"
    match submitted.prior_state:
        case PriorState.NEW:
            return f"{label}: {size}."
        case PriorState.RESUMED:
            return f"{label}: {size}; reading went on where it was interrupted."
        case PriorState.RUNNING:
            return f"{label}: {size}; it was submitted before and {paused or 'goes on'}. (--again makes a new job.)"
        case _:
            return f"{label}: {size}; it was submitted before and is complete. (--again makes a new job.)"


def _say_next(context: Context, database: "Database", submitted: SubmittedJob, queue: str, model: str) -> None:
    from jobs.cli.stalled_job import jobs_ahead_message, no_worker_message
    from jobs.store.waiting import jobs_ahead

    if submitted.prior_state is PriorState.COMPLETE:
        print_message(f"Results: kvjobs export {submitted.job_id} -o FILE")
        return
    if unserved := no_worker_message(database, queue, model):
        print_message(unserved)
    elif (ahead := jobs_ahead(database, submitted.job_id)).jobs:
        print_message(jobs_ahead_message(ahead))
    print_message(f"Follow it: kvjobs watch {submitted.job_id}")
