"""The command that makes a job like one that is stored: the same corpus, model and options.

Knows: how `kvjobs submit` is asked for what a job's row has. Does not know: databases, files.
"""

import dataclasses
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from jobs.addresses.address import is_hidden, located
from jobs.corpus.corpus import BEIR, STREAMS, default_line_bytes
from jobs.corpus.corpus_format import DELIMITER_NAMES, SEPARATORS, Format, format_of
from jobs.corpus.sql_source import is_query, query_words
from jobs.errors import SpecError
from jobs.queues import CPU
from jobs.routing.plan import AUTO
from jobs.spec import JobSpec
from jobs.stage import CORPUS, FILTER, FilterSpec, newest_text
from jobs.tasks.kind import PayloadKind
from jobs.tasks.kinds import KINDS, Options
from jobs.tasks.option import options_of
from jobs.tasks.task import Task
from jobs.tasks.translate import VIA, VIA_MODEL
from jobs.text.csv_text import csv_line
from jobs.tolerance import MAX_REJECTED

SOME_FOLDER = "FOLDER"  # of files that were sent
SOME_ADDRESS = "ADDRESS"  # of which the row has not all that it takes to read it
RUN_OVER = " over "  # between the run and the folder in the source of a BEIR corpus


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StoredSubmit:
    """What the row of a job says about the command that made it."""

    task: str
    model: str
    model_revision: str
    options: str  # canonical JSON
    providers: str | None  # JSON; None: onnx alone
    source: str  # the corpus, as `Corpus.source` names it
    reading: str | None  # how the corpus is read, JSON; None for a job of an older version
    priority: int
    queue: str
    reads: int | None = None  # of a stage of a chain: the stage whose result is its text


def submit_command(job: StoredSubmit, *later: StoredSubmit) -> str | None:
    """The command; None where a newer kvjobs has submitted the job with an option that is unknown here. `later`: the
    stages of its chain. Of an address whose secrets are not stored it has ADDRESS.

    `--again` is in it: without it the same corpus with the same options is the job that is there already.
    """
    try:
        spec = _spec(job)
        tasks = [job.task, *(stage.task for stage in later)]
        stages = [_stage(stage, tasks[:number]) for number, stage in enumerate(later, start=1)]
    except SpecError:
        return None
    corpus, run, pipe = _corpus(job)
    words = ["kvjobs", "submit", *([corpus] if corpus else []), *run, *_job_arguments(job, spec)]
    words += ["--max-rejected", allowed] if (allowed := _reading(job).get(MAX_REJECTED)) else []
    words += ["--priority", str(job.priority)] if job.priority else []
    words += [word for stage in stages for word in ("--then", stage)]
    return shlex.join([*words, "--again"]) + pipe


def trial_command(job: StoredSubmit, file: str) -> str | None:
    """The command that does with `file`, which has lines of the corpus as they are but in UTF-8, what the job does;
    None as of `submit_command`."""
    reading = {name: value for name, value in _reading(job).items() if name not in ("files", "encoding")}
    trial = dataclasses.replace(job, source=file, reading=orjson.dumps(reading).decode())
    try:
        return shlex.join(["kvjobs", "submit", file, *_job_arguments(trial, _spec(trial)), "--wait"])
    except SpecError:
        return None


def _job_arguments(job: StoredSubmit, spec: JobSpec) -> Iterator[str]:
    """The arguments for the task, its model, providers and options, and for reading the corpus."""
    model = () if "requested_model" in _reading(job) else _model_arguments(spec)
    yield from ("--task", spec.task.value, *model, *_option_arguments(spec.options))
    yield from _reading_arguments(job, spec.task)
    yield from ("--queue", job.queue) if job.queue != CPU else ()
    yield from () if spec.providers.is_default else ("--providers", str(spec.providers))
    yield from () if spec.providers.fallback else ("--no-fallback",)


def _spec(job: StoredSubmit) -> JobSpec:
    return JobSpec.restore(
        task=job.task,
        model=job.model,
        model_revision=job.model_revision,
        options_json=job.options,
        providers_json=job.providers,
    )


def _stage(job: StoredSubmit, before: Sequence[str]) -> str:
    """The text of `--then`; `before` are the tasks of the stages before it."""
    if job.task == FILTER:
        return f"{FILTER} {FilterSpec.restore(job.options).condition}"
    spec = _spec(job)
    words = [spec.task.value, "--model", spec.model, *_option_arguments(spec.options)]
    if job.reads is not None and job.reads != newest_text(before):
        words += ["--field", "text" if job.reads == CORPUS else KINDS[before[job.reads - 1]].main]
    words += [] if spec.providers.is_default else ["--providers", str(spec.providers)]
    words += [] if spec.providers.fallback else ["--no-fallback"]
    return shlex.join(words)


def _corpus(job: StoredSubmit) -> tuple[str, list[str], str]:
    """The corpus, the option of its run, and what follows the command."""
    if is_query(job.source):
        return "", query_words(job.source), ""
    reading = _reading(job)
    if job.source in STREAMS and reading.get("format") == Format.FILES:
        return reading.get("units", {}).get("name", SOME_FOLDER), [], ""
    if job.source in STREAMS:
        return "-", [], " < CORPUS"
    if reading.get("format") == BEIR and RUN_OVER in job.source:
        run, _, folder = job.source.rpartition(RUN_OVER)
        return _written(folder), ["--run", _written(run)], ""
    return _written(job.source), [], ""


def _written(source: str) -> str:
    return SOME_ADDRESS if is_hidden(source) else source


def _model_arguments(spec: JobSpec) -> Iterator[str]:
    """The options that name the model, or the two models with a language in the middle, or the table of routes."""
    if not spec.routes:
        yield from ("--model", spec.model)
        return
    if spec.model == AUTO:
        yield from ("--model", AUTO)
        return
    (route,) = spec.routes
    first, second = route.legs
    yield from ("--model", first.model)
    yield from VIA.words(route.via) if route.via else ()
    yield from VIA_MODEL.words(second.model)


def _option_arguments(options: Options) -> Iterator[str]:
    """The options of the task that are not at their default."""
    for option in options_of(type(options)):
        value = getattr(options, option.name)
        if option.help and value != option.default:
            yield from option.words(value)


def _reading_arguments(job: StoredSubmit, task: Task) -> Iterator[str]:
    """How the corpus is read, where that does not follow from its name."""
    reading = _reading(job)
    if reading.get("format", BEIR) == BEIR:
        return
    form = Format(reading["format"])
    is_stream = job.source in STREAMS or is_query(job.source)
    guessed = Format.JSONL if is_stream else format_of(Path(located(job.source).name))
    if reading["any_name"] if reading.get("files") else form is not guessed:
        yield from ("--format", form.value)
    delimiter = reading.get("delimiter", SEPARATORS.get(form))
    if delimiter != SEPARATORS.get(form):
        names = (name for name, sign in DELIMITER_NAMES.items() if sign == delimiter)
        yield from ("--delimiter", next(names, delimiter))
    if columns := reading.get("columns"):
        yield from ("--columns", csv_line(columns).rstrip())
    if encoding := reading.get("encoding"):
        yield from ("--encoding", encoding)
    kind = PayloadKind(reading["holds"])
    default = default_line_bytes(kind, in_windows=KINDS[task].in_windows)
    if (limit := reading.get("max_line_bytes", default)) != default:
        yield from ("--max-text", str(limit))
    if reading["id_field"] != "id" and form is not Format.OPENAI:
        yield from ("--id-field", reading["id_field"])
    named = {**reading, **{f"{role}_field": field for role, field in reading["fields"].items()}}
    for option in KINDS[task].options:
        if option.of_corpus and (field := named.get(option.name, option.default)) != option.default:
            yield from option.words(field)


def _reading(job: StoredSubmit) -> Mapping[str, Any]:
    return orjson.loads(job.reading) if job.reading else {}
