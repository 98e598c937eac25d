"""`kvjobs bench providers`: which provider to use, on one's own texts."""

import dataclasses
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from jobs.cli.choice import SuggestingChoice
from jobs.cli.context import Context
from jobs.cli.number_types import number_type
from jobs.cli.price_option import price_option
from jobs.cli.render.messages import print_message
from jobs.cli.render.output import Column, Output, output_options
from jobs.cli.task_options import GroupedCommand, parse_task_options, task_options
from jobs.dispatch.worker_arguments import WorkerArguments
from jobs.errors import SpecError
from jobs.number_ranges import Whole
from jobs.providers import ProviderOrder
from jobs.spec import JobSpec
from jobs.tasks.kinds import KINDS
from jobs.tasks.score import ScoreOptions
from jobs.tasks.task import Task
from jobs.tasks.translate import TranslateOptions
from jobs.text.formatting import NOTHING, count, counted, figure, percent, visible
from jobs.worker_port import worker_port

if TYPE_CHECKING:
    from jobs.documents import Document
    from worker.model_tools.provider_trial import ProviderTrial

FIELDS = (
    *("provider", "model", "why_not", "documents", "failed", "unanswered", "reason", "open_s", "seconds", "cpu_s"),
    *("tokens_per_s", "times_as_fast", "same", "difference", "perplexity", "agreement"),
    *("requests", "prompt_tokens", "completion_tokens", "cost"),
)


COLUMNS = (
    Column("provider", "PROVIDER"),
    Column("documents", "OK", count, right=True),
    Column("missing", "NOT OK", count, right=True, rank=5),
    Column("open_s", "OPEN S", figure, right=True, rank=6),
    Column("seconds", "SECONDS", figure, right=True, rank=4),
    Column("tokens_per_s", "TOKENS/S", figure, right=True),
    Column(
        "times_as_fast", "SPEED", lambda times: NOTHING if times is None else f"{figure(times)} x", right=True, rank=1
    ),
    Column("same", "SAME", lambda share: NOTHING if share is None else percent(share), right=True, rank=2),
    Column("difference", "DIFFERENCE", figure, right=True),
    Column("cost", "COST", lambda cost: figure(cost or None), right=True, rank=3),
)


@click.command(cls=GroupedCommand)
@click.argument("corpus", metavar="CORPUS")
@click.option(
    "--task", type=SuggestingChoice([task.value for task in Task]), default=Task.TRANSLATE.value, show_default=True
)
@click.option("--model", metavar="NAME", help="As for submit.  [default: the bundled one for the task]")
@click.option(
    "--providers",
    "order",
    metavar="NAME,...",
    required=True,
    help="The providers to try; the others are compared with the first that answers: onnx,llamacpp:NAME,openai:NAME",
)
@click.option(
    "--limit",
    metavar="N",
    type=number_type(Whole(1)),
    default=200,
    show_default=True,
    help="Documents of the corpus to try, from its beginning.",
)
@click.option("--id-field", default="id", show_default=True, help="The field that holds a document's id.")
@price_option
@task_options
@output_options()
@click.pass_obj
def providers(
    context: Context,
    /,
    output: Output,
    corpus: str,
    task: str,
    model: str | None,
    order: str,
    limit: int,
    id_field: str,
    openai_price_per_million: str | None,
    **of_task: Any,
) -> int:
    """Try the providers of a job on a sample of CORPUS: which is fastest, and how far their answers differ.

    Each answers the same documents alone, one provider after the other, with as many lanes as a worker has. Nothing is
    stored, and nothing comes from a memory. SPEED and DIFFERENCE are against the first that answers. What a server is
    asked is paid for. Exit code 1 if a provider could not be tried.

    \b
    kvjobs bench providers corpus.jsonl --task score --model demo-lm
        --providers onnx,openai:demo-lm
    """
    from worker.model_tools.provider_trial import try_providers

    context = context.with_flags(openai_price_per_million=openai_price_per_million)
    options = parse_task_options(Task(task), of_task)
    if isinstance(options, TranslateOptions | ScoreOptions):  # the others have no memory
        options = dataclasses.replace(options, reuse=False)
    spec = worker_port().admit(Task(task), model, options, context.settings, ProviderOrder.parse(order))
    documents = _sample(corpus, spec, id_field, of_task, limit)
    names = ", ".join(choice.name for choice in spec.providers.choices)
    print_message(f"{counted(len(documents), 'document')}: {names} ...")
    trials = list(try_providers(spec, documents, WorkerArguments(context.settings)))
    output.rows(_rows(trials), COLUMNS, FIELDS)
    if output.is_table:
        for line in _verdict(trials, spec.task):
            print_message(line)
        for trial in trials:
            if sentence := trial.why_not or trial.agreement or trial.reason:
                print_message(visible(f"{trial.provider}: {sentence}"))
    return int(any(trial.why_not or trial.unanswered for trial in trials))


def _verdict(trials: "list[ProviderTrial]", task: Task) -> Iterator[str]:
    answered = [trial for trial in trials if trial.tokens_per_s]
    if not answered:
        yield "No provider answered."
        return
    fastest = max(answered, key=lambda trial: trial.tokens_per_s or 0)
    yield f"Fastest: {fastest.provider}. DIFFERENCE is: {KINDS[task].difference}."
    if len(answered) > 1:
        yield f"Below, A is {answered[0].provider}, and B the provider that the line begins with."


def _sample(path: str, spec: JobSpec, id_field: str, of_task: dict[str, Any], limit: int) -> "list[Document]":
    from jobs.corpus.corpus import Corpus
    from jobs.corpus.reading import read_corpus
    from jobs.documents import Document

    fields = {name: of_task[name] for name in ("text_field", "source_field", "target_field", "run") if name in of_task}
    corpus = Corpus(path=path, payload_kind=spec.payload_kind, id_field=id_field, **fields)
    documents = list(islice((record for record in read_corpus(corpus) if isinstance(record, Document)), limit))
    if not documents:
        raise SpecError(f"{path} has no document: name another corpus")
    return documents


def _rows(trials: "list[ProviderTrial]") -> list[dict[str, Any]]:
    first = next((trial for trial in trials if trial.tokens_per_s), None)
    return [_row(trial, first) for trial in trials]


def _row(trial: "ProviderTrial", first: "ProviderTrial | None") -> dict[str, Any]:
    times = None
    if first is not None and first.tokens_per_s and trial.tokens_per_s:
        times = trial.tokens_per_s / first.tokens_per_s
    used = trial.usage
    return {
        **{field.name: getattr(trial, field.name) for field in dataclasses.fields(trial) if field.name != "usage"},
        "missing": trial.failed + trial.unanswered,
        "times_as_fast": times,
        **{name: getattr(used, name, 0) for name in ("requests", "prompt_tokens", "completion_tokens", "cost")},
    }
