"""`--then "TASK OPTIONS"`: the stages of a chain, each with the options that `kvjobs submit` has for its task."""

import shlex
from collections.abc import Sequence
from typing import Any

import click

from jobs.cli.choice import SuggestingChoice
from jobs.cli.task_options import click_option, is_given, parse_task_options, task_options
from jobs.errors import KvjobsError, SpecError, meant
from jobs.providers import ProviderOrder
from jobs.routing.plan import AUTO
from jobs.settings import Settings
from jobs.spec import JobSpec
from jobs.stage import CORPUS, FILTER, MADE_TEXTS, MAX_STAGES, FilterSpec, Stage, newest_text
from jobs.tasks.kind import PayloadKind
from jobs.tasks.kinds import KINDS, every_option
from jobs.tasks.task import Task
from jobs.worker_port import worker_port

TASKS = tuple(kind.name for kind in KINDS.values() if kind.can_follow)
FIELDS = ("text", *MADE_TEXTS)
SHOWN = 60  # characters of a --then in a message

then_option = click.option(
    "--then",
    "then",
    metavar="STAGE",
    multiple=True,
    help='A further stage, which starts as parts of the stage before it finish: "score --model X", or "filter '
    'perplexity < 50". Takes the options of its task, and --field for the text that it reads.  [repeatable]',
)


def read_stages(texts: Sequence[str], first: JobSpec, settings: Settings) -> list[Stage]:
    """The stages behind the first one, each checked as a job alone would be. Raises SpecError for a text that is no
    stage, and what `admit` raises; the message names the stage."""
    if len(texts) >= MAX_STAGES:
        raise SpecError(f"a chain has at most {MAX_STAGES} stages, and this one has {len(texts) + 1}")
    stages: list[Stage] = []
    for number, text in enumerate(texts, start=1):
        shown = text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"
        try:
            stages.append(_read_stage(text, first, stages, settings))
        except click.ClickException as error:
            raise SpecError(f"--then {shown!r}: {error.format_message()}") from None
        except KvjobsError as error:
            which = f"--then {shown!r}" if len(texts) == 1 else f"--then {number}, {shown!r}"
            raise type(error)(f"{which}: {error}") from None
    return stages


def _read_stage(text: str, first: JobSpec, before: Sequence[Stage], settings: Settings) -> Stage:
    word, _, rest = text.strip().partition(" ")
    tasks = [str(first.task), *(str(stage.spec.task) for stage in before)]
    if word == FILTER:
        return Stage(_filter(rest.strip(), tasks), reads=newest_text(tasks) or CORPUS)
    if word not in TASKS:
        names = ", ".join((*TASKS, FILTER))
        if word in KINDS:
            raise SpecError(f"a stage has texts, and {word} needs a query with candidates; a stage can be {names}")
        near = meant(word, (*TASKS, FILTER))
        raise SpecError(f"{word!r} is no stage{near}; write one of {names} first, then its options")
    task = Task(word)
    try:
        words = shlex.split(rest)
    except ValueError as error:
        raise SpecError(f"its quotes do not match ({str(error).lower()}); close them") from None
    with _COMMAND.make_context(word, words) as context:
        values: dict[str, Any] = dict(context.params)
        for option in every_option().values():
            if option.of_corpus and is_given(option.name):
                raise SpecError(f"{option.flag} is for reading a corpus; a stage reads one --field")
            if option.of_routes and is_given(option.name):
                raise SpecError(f"{option.flag} is for the first stage; write two stages that translate")
        model, providers, field = (values.pop(name) for name in ("model", "providers", "field"))
        no_fallback = values.pop("no_fallback")
        if model == AUTO and KINDS[task].is_between_languages:
            raise SpecError(f"--model {AUTO} is for the first stage; name a model here")
        options = parse_task_options(task, values)
    reads = newest_text(tasks, field)
    if reads is None:
        raise SpecError(f"no stage before it makes a {field}; leave --field out, or give --field text")
    order = None if providers is None else ProviderOrder.parse(providers)
    spec = worker_port().admit(task, model, options, settings, order, fallback=not no_fallback)
    _check_texts(spec, first, tasks, reads)
    return Stage(spec, reads)


def _filter(condition: str, tasks: Sequence[str]) -> FilterSpec:
    from jobs.store.queue.filtering import check_condition

    if not condition:
        raise SpecError('a filter needs a condition: "filter perplexity < 50"')
    try:
        check_condition(condition, tasks)
    except SpecError as error:
        raise SpecError(str(error).replace("--where", "the condition")) from None
    return FilterSpec(condition)


def _check_texts(spec: JobSpec, first: JobSpec, tasks: Sequence[str], reads: int) -> None:
    """Raise SpecError where the stage needs more than a text, or there is none to read. `tasks`: of the stages before
    it."""
    if spec.payload_kind is PayloadKind.MESSAGES:
        raise SpecError("a stage has texts, and --chat needs messages; leave it out")
    if spec.payload_kind is PayloadKind.PAIRS and (not reads or not KINDS[tasks[reads - 1]].is_between_languages):
        raise SpecError(
            f"{spec.model} is a translation model, which scores a translation given its source, and this stage reads "
            "none; name a language model"
        )
    if reads == CORPUS and first.payload_kind is not PayloadKind.TEXT:
        raise SpecError("the documents of this corpus are no texts, and no stage before it makes one; leave it out")


@click.command(add_help_option=False)
@click.option("--model", metavar="NAME")
@click.option("--providers", metavar="NAME,...")
@click.option("--no-fallback", is_flag=True)
@click_option(every_option()["timing"])
@click.option("--field", type=SuggestingChoice(FIELDS))
@task_options
def _COMMAND(**_values: Any) -> None:
    """A click command that only parses the options of a stage; its body is never called."""
