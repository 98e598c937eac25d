"""What a submit is asked for besides its documents: the options that every job has, and those of its task.

Declared as the options of a task are (`jobs.tasks.option`), so the command line, Python and HTTP take the same ones.
"""

import csv
import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jobs.errors import SpecError, meant
from jobs.number_ranges import read_size
from jobs.providers import ProviderOrder
from jobs.queues import CPU, check_queue, read_priority
from jobs.submission.job_name import check_key, check_name
from jobs.tasks.kinds import Options, every_option, read_options
from jobs.tasks.option import EVERY, Option, option, options_of
from jobs.tasks.task import Task
from jobs.tolerance import Tolerance
from jobs.webhook_address import read_webhook_url


def _read_columns(value: Any) -> tuple[str, ...]:
    """Names of columns, from a row of CSV or a list."""
    if isinstance(value, str):
        return tuple(next(csv.reader([value], skipinitialspace=True), []))
    if isinstance(value, list | tuple) and all(isinstance(name, str) for name in value):
        return tuple(value)
    raise SpecError(f"columns is {value!r}, and not names of columns: id,text")


def _read_stages(value: Any) -> tuple[Any, ...]:
    """Stages as texts, or as objects with the options of each; the text of an object is read as one."""
    stages = (value,) if isinstance(value, str | Mapping) else value
    if isinstance(stages, list | tuple) and all(isinstance(stage, str | Mapping) for stage in stages):
        return tuple(map(_read_stage, stages))
    raise SpecError(f"then is {value!r}, and not a list of stages: a text or an object each")


def _read_stage(stage: str | Mapping[str, Any]) -> str | Mapping[str, Any]:
    if not isinstance(stage, str) or not stage.lstrip().startswith("{"):
        return stage
    try:
        values: Mapping[str, Any] = json.loads(stage)
    except (ValueError, RecursionError) as error:
        raise SpecError(f"then is {stage[:60]!r}, which is not JSON ({error})") from None
    return values


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """The options that every job has; raises SpecError for some that exclude one another."""

    task: Task = option(Task.TRANSLATE, "What to do with each document.")
    model: str | None = option(
        None,
        "A model's name, or its folder; to translate also auto: by each document's language, from the table [routes] "
        "of kvjobs.toml.  [default: the bundled one for the task]",
        metavar="NAME",
    )
    providers: str | None = option(
        None,
        "The engines that may answer, the first one first: onnx, openai, openai:MODEL ... What one does not answer "
        "goes to the next.  [default: the setting providers, else onnx]",
        metavar="NAME,...",
    )
    no_fallback: bool = option(False, "Use the first provider alone; what it does not answer fails.")
    then: tuple[Any, ...] = option(
        (),
        'A further stage, which starts as parts of the stage before it finish: "score --model X", or "filter '
        'perplexity < 50". Takes the options of its task, and --field for the text that it reads.  [repeatable]',
        metavar="STAGE",
        parse=_read_stages,
    )
    name: str | None = option(None, "A name for the job; commands take it in place of the job's number.")
    key: str | None = option(
        None,
        "What names the job in place of its corpus: with the same key it is the same job, whatever the corpus holds.",
    )
    priority: int = option(
        0,
        "low (-10), normal (0), high (10), or another number; higher goes first.",
        parse=read_priority,
        metavar="P",
    )
    queue: str = option(
        CPU, "cpu: any worker may process the job; gpu: only workers with a GPU.", parse=check_queue, metavar="NAME"
    )
    format: str | None = option(
        None,
        "jsonl, txt, csv, tsv, parquet, openai: a batch file of OpenAI, or files: that come back translated.  "
        "[default: by the file's name, or its first line]",
        metavar="FORMAT",
        of_corpus=True,
    )
    delimiter: str | None = option(
        None, "CSV, TSV: the character between two cells: ';', '|', tab ...", metavar="SIGN", of_corpus=True
    )
    columns: tuple[str, ...] | None = option(
        None,
        "CSV, TSV without a header: the names of all columns, in their order: id,text.",
        metavar="NAME,...",
        parse=_read_columns,
        of_corpus=True,
    )
    encoding: str | None = option(
        None,
        "What the text is written in: cp1252, utf-16, shift_jis ...  [default: utf-8]",
        metavar="NAME",
        of_corpus=True,
    )
    id_field: str = option(
        "id",
        "The field that holds a document's id; in an object within the line: meta.id. Where it is missing or empty, "
        "the line number is the id.",
        of_corpus=True,
    )
    max_text: int | None = option(  # bytes
        None,
        "The longest line that is not rejected: 64M, 500k ...  [default: 1M; to score a text, which a model reads in "
        "windows, and to rerank, 16M]",
        metavar="SIZE",
        parse=read_size,
        of_corpus=True,
    )
    strict: bool = option(False, "Refuse the whole corpus if a single line cannot be read.")
    max_rejected: Tolerance | None = option(
        None,
        "Refuse the corpus if more lines than this cannot be read (10, 0.5%). With no more than this, and all other "
        "documents ok, --wait and later kvjobs wait and watch exit with 0.",
        metavar="N|P%",
        parse=Tolerance.parse,
    )
    notify: str | None = option(
        None,
        "Send a signed webhook to this address when the job has ended: https, or http to this machine. The setting "
        "notify_secret signs it.",
        metavar="URL",
        parse=read_webhook_url,
    )
    again: bool = option(False, "Make a new job even if this corpus was submitted before.")

    def __post_init__(self) -> None:
        if self.strict and self.max_rejected:
            raise SpecError("--strict is the same as --max-rejected 0; give only one of the two")
        if self.key is not None and self.again:
            raise SpecError("--key names one job, and --again makes another; give only one of the two")
        check_name(self.name)
        check_key(self.key)

    @property
    def order(self) -> ProviderOrder | None:
        """The providers that were asked for; None: the settings decide. Raises SpecError where it is no order."""
        return None if self.providers is None else ProviderOrder.parse(self.providers)


OF_EVERY_JOB: Mapping[str, Option] = {
    declared.name: dataclasses.replace(declared, heading=EVERY) for declared in options_of(JobOptions)
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitRequest:
    """The options of one submit."""

    job: JobOptions
    of_task: Mapping[str, Any]  # the options of its task that were given, plain values by name
    given: frozenset[str] = frozenset()  # the names of those of every job that were given

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> "SubmitRequest":
        """The request of plain values by the names of options, as JSON or a command has them. Raises SpecError for an
        option that there is not, one of another task, and a value that it cannot have."""
        known = {**OF_EVERY_JOB, **every_option()}
        if unknown := next((name for name in values if name not in known), None):
            raise SpecError(f"there is no option {unknown!r}{meant(unknown, known)}")
        own = {name: OF_EVERY_JOB[name].read(value) for name, value in values.items() if name in OF_EVERY_JOB}
        request = cls(
            job=JobOptions(**own),
            of_task={name: value for name, value in values.items() if name not in OF_EVERY_JOB},
            given=frozenset(own),
        )
        request.read_task_options()
        return request

    def read_task_options(self) -> Options:
        """The options of the task, checked."""
        return read_options(self.job.task, self.of_task)

    def value(self, declared: Option) -> Any:
        """The value of an option of a task: as it was given, else its default."""
        return self.of_task.get(declared.name, declared.default)
