"""The stages of a chain behind the first one, each checked as a job alone would be.

A stage is an object: its task, `model`, `providers`, `no_fallback`, `field` (the text that it reads), and the options
of its task; or a filter with a condition, which may also be written as the text "filter perplexity < 50".
"""

from collections.abc import Mapping, Sequence
from typing import Any

from jobs.errors import KvjobsError, SpecError, meant
from jobs.providers import ProviderOrder
from jobs.routing.plan import AUTO
from jobs.settings import Settings
from jobs.spec import JobSpec
from jobs.stage import CORPUS, FILTER, MADE_TEXTS, MAX_STAGES, FilterSpec, Stage, newest_text
from jobs.tasks.kind import PayloadKind
from jobs.tasks.kinds import KINDS, every_option, read_options
from jobs.tasks.task import Task
from jobs.worker_port import worker_port

TASKS = tuple(kind.name for kind in KINDS.values() if kind.can_follow)
FIELDS = ("text", *MADE_TEXTS)
SHOWN = 60  # characters of a stage in a message
WRITTEN = "written"  # the key of a stage's text as the user wrote it, for messages


def read_stages(stages: Sequence[str | Mapping[str, Any]], first: JobSpec, settings: Settings) -> list[Stage]:
    """The stages behind the first one. Raises SpecError for a value that is no stage, and what `WorkerPort.admit`
    raises; the message names the stage."""
    if len(stages) >= MAX_STAGES:
        raise SpecError(f"a chain has at most {MAX_STAGES} stages, and this one has {len(stages) + 1}")
    found: list[Stage] = []
    for number, values in enumerate(stages, start=1):
        try:
            found.append(_read_stage(values, first, found, settings))
        except KvjobsError as error:
            shown = shown_stage(values)
            which = f"--then {shown}" if len(stages) == 1 else f"--then {number}, {shown}"
            raise type(error)(f"{which}: {error}") from None
    return found


def shown_stage(values: str | Mapping[str, Any]) -> str:
    """A stage for messages: what the user wrote, quoted and shortened."""
    text = values if isinstance(values, str) else values.get(WRITTEN, dict(values))
    shown = str(text)
    return repr(shown if len(shown) <= SHOWN else f"{shown[: SHOWN - 1]}…")


def stage_task(word: str) -> Task:
    """The task that a stage names first. Raises SpecError for one that cannot be a stage."""
    if word in TASKS:
        return Task(word)
    names = ", ".join((*TASKS, FILTER))
    if word in KINDS:
        raise SpecError(f"a stage has texts, and {word} needs a query with candidates; a stage can be {names}")
    near = meant(word, (*TASKS, FILTER))
    raise SpecError(f"{word!r} is no stage{near}; write one of {names} first, then its options")


def _read_stage(values: str | Mapping[str, Any], first: JobSpec, before: Sequence[Stage], settings: Settings) -> Stage:
    if isinstance(values, str):
        word, _, condition = values.strip().partition(" ")
        if word != FILTER:
            stage_task(word)
            raise SpecError('a text can only be a filter; write an object, such as {"task": "score", "model": "X"}')
        values = {"task": FILTER, "condition": condition.strip()}
    given = {name: value for name, value in values.items() if name != WRITTEN}
    tasks = [str(first.task), *(str(stage.spec.task) for stage in before)]
    word = given.pop("task", "")
    if word == FILTER:
        condition = given.pop("condition", "")
        if given:
            raise SpecError(f"a filter has a condition, and no {next(iter(given))}; leave it out")
        return Stage(_filter(condition, tasks), reads=newest_text(tasks) or CORPUS)
    task = stage_task(str(word))
    model, providers, field = (given.pop(name, None) for name in ("model", "providers", "field"))
    no_fallback = given.pop("no_fallback", False)
    for option in every_option().values():
        if option.of_corpus and option.name in given:
            raise SpecError(f"{option.flag} is for reading a corpus; a stage reads one --field")
        if option.of_routes and option.name in given:
            raise SpecError(f"{option.flag} is for the first stage; write two stages that translate")
    if model == AUTO and KINDS[task].is_between_languages:
        raise SpecError(f"--model {AUTO} is for the first stage; name a model here")
    if field is not None and field not in FIELDS:
        raise SpecError(f"field is {field!r}{meant(str(field), FIELDS)}; it can be {', '.join(FIELDS)}")
    options = read_options(task, given)
    reads = newest_text(tasks, field)
    if reads is None:
        raise SpecError(f"no stage before it makes a {field}; leave --field out, or give --field text")
    order = None if providers is None else ProviderOrder.parse(providers)
    spec = worker_port().admit(task, model, options, settings, order, fallback=not no_fallback)
    _check_texts(spec, first, tasks, reads)
    return Stage(spec, reads)


def _filter(condition: object, tasks: Sequence[str]) -> FilterSpec:
    from jobs.store.queue.filtering import check_condition

    if not isinstance(condition, str) or not condition.strip():
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
