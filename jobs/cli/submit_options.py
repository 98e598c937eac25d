"""The options of `kvjobs submit` that every task has, and the checked value that they make."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from jobs.cli.choice import SuggestingChoice
from jobs.cli.job_exit import MaxRejected, json_option
from jobs.cli.price_option import price_option
from jobs.cli.priority import Priority
from jobs.cli.size import Bytes
from jobs.cli.task_options import click_option
from jobs.cli.then_option import then_option
from jobs.errors import SpecError
from jobs.providers import ProviderOrder
from jobs.queues import CPU, check_queue
from jobs.submission.job_name import check_name
from jobs.tasks.kinds import KINDS, every_option
from jobs.tasks.task import Task
from jobs.tolerance import Tolerance

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SubmitOptions:
    """One call of `kvjobs submit`; raises SpecError for options that exclude one another."""

    corpus: str  # a path, or - for standard input
    task: Task
    model: str | None
    wait: bool
    output: Path | None  # of the results, with `wait`
    name: str | None
    priority: int
    queue: str
    form: str | None  # format of the corpus; None: by the name of the file
    delimiter: str | None
    columns: str | None
    encoding: str | None
    id_field: str
    max_text: int | None  # bytes
    strict: bool
    tolerance: Tolerance | None
    dry_run: bool
    quiet: bool
    as_json: bool
    again: bool
    providers: str | None  # None: the providers that the settings name
    no_fallback: bool
    openai_price_per_million: str | None  # with `wait`: for the embedded worker
    then: tuple[str, ...]  # the further stages of the chain
    of_task: Mapping[str, Any]  # the options that belong to tasks, by name

    def __post_init__(self) -> None:
        if self.output and not self.wait:
            raise SpecError("-o needs --wait; without it, export the results later: kvjobs export JOB -o FILE")
        if self.strict and self.tolerance:
            raise SpecError("--strict is the same as --max-rejected 0; give only one of the two")
        if self.openai_price_per_million is not None and not self.wait:
            raise SpecError("--price-per-million needs --wait; without it, give it to kvjobs worker")
        self._check_standard_output()
        check_name(self.name)
        check_queue(self.queue)

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "SubmitOptions":
        """The options, from the parameters of the command. Raises SpecError for options that exclude one another."""
        own = {field.name for field in dataclasses.fields(cls)}
        common = {name: value for name, value in values.items() if name in own}
        of_task = {name: value for name, value in values.items() if name not in own}
        return cls(**common | {"task": Task(common["task"])}, of_task=of_task)

    @property
    def order(self) -> ProviderOrder | None:
        """The providers that were asked for; None: the settings decide. Raises SpecError where it is no order."""
        return None if self.providers is None else ProviderOrder.parse(self.providers)

    @property
    def results(self) -> Path | None:
        """Where the results go: a file, `-` for standard output, or None for nowhere."""
        if self.output is None and self.wait and (not KINDS[self.task].has_totals or self.then):
            return Path("-")
        return self.output

    def _check_standard_output(self) -> None:
        """Standard output carries one thing: the results, the job's number, or its JSON."""
        if self.quiet and self.as_json:
            raise SpecError("--json and -q exclude each other; give only one of the two")
        if self.quiet and self.dry_run:
            raise SpecError("--dry-run makes no job, so -q has no number to print; leave -q out")
        if (self.quiet or self.as_json) and str(self.results) == "-" and not self.dry_run:
            raise SpecError(
                f"{'-q' if self.quiet else '--json'} writes to standard output, and so would the results; write the "
                "results to a file with -o FILE"
            )


def submit_options(command: Command) -> Command:
    """Add the options to a command, in the order of its help."""
    for decorate in reversed(_OPTIONS):
        command = decorate(command)
    return command


_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    click.option(
        "--task",
        type=SuggestingChoice([task.value for task in Task]),
        default=Task.TRANSLATE.value,
        show_default=True,
        help="What to do with each document.",
    ),
    click.option(
        "--model",
        metavar="NAME",
        help="A model's name, or its folder; to translate also auto: by each document's language, from the table "
        "[routes] of kvjobs.toml.  [default: the bundled one for the task]",
    ),
    click.option(
        "--providers",
        metavar="NAME,...",
        help="The engines that may answer, the first one first: onnx, openai, openai:MODEL ... What one does not "
        "answer goes to the next.  [default: the setting providers, else onnx]",
    ),
    click.option("--no-fallback", is_flag=True, help="Use the first provider alone; what it does not answer fails."),
    then_option,
    click.option(
        "--wait",
        is_flag=True,
        help="Show progress until the job ends, then write its results. Starts a worker if none serves the job.",
    ),
    click.option(
        "-o",
        "--output",
        type=click.Path(path_type=Path),
        help="With --wait: the file for the results; - is standard output.  [default: standard output, but no file for "
        "scores]",
    ),
    click.option("--name", help="A name for the job; commands take it in place of the job's number."),
    click.option(
        "--priority",
        type=Priority(),
        default="normal",
        show_default=True,
        metavar="P",
        help="low, normal, high, or a number; higher goes first.",
    ),
    click.option(
        "--queue",
        default=CPU,
        show_default=True,
        metavar="NAME",
        help="cpu: any worker may process the job; gpu: only workers with a GPU.",
    ),
    click.option(
        "--format", "form", metavar="FORMAT", help="jsonl, txt, csv, tsv or parquet.  [default: by the file's name]"
    ),
    click.option("--delimiter", metavar="SIGN", help="CSV, TSV: the character between two cells: ';', '|', tab ..."),
    click.option(
        "--columns",
        metavar="NAME,...",
        help="CSV, TSV without a header: the names of all columns, in their order: id,text.",
    ),
    click.option(
        "--encoding",
        metavar="NAME",
        help="What the text is written in: cp1252, utf-16, shift_jis ...  [default: utf-8]",
    ),
    click.option(
        "--id-field",
        default="id",
        show_default=True,
        help="The field that holds a document's id; in an object within the line: meta.id. Where it is missing or "
        "empty, the line number is the id.",
    ),
    click_option(every_option()["text_field"]),
    click.option(
        "--max-text",
        type=Bytes(),
        metavar="SIZE",
        help="The longest line that is not rejected: 64M, 500k ...  [default: 1M; to score a text, which a model reads "
        "in windows, and to rerank, 16M]",
    ),
    click.option("--strict", is_flag=True, help="Refuse the whole corpus if a single line cannot be read."),
    click.option(
        "--max-rejected",
        "tolerance",
        type=MaxRejected(),
        metavar="N|P%",
        help="Refuse the corpus if more lines than this cannot be read (10, 0.5%). With no more than this, and all "
        "other documents ok, --wait and later kvjobs wait and watch exit with 0.",
    ),
    click.option(
        "--dry-run", is_flag=True, help="Read the corpus and report what a job would process; submit nothing."
    ),
    click.option("-q", "--quiet", is_flag=True, help="Print only the job's number, and errors."),
    json_option,
    click.option("--again", is_flag=True, help="Make a new job even if this corpus was submitted before."),
    click_option(every_option()["timing"]),
    price_option,
)
