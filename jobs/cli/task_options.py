"""What a submit asks for, task by task: the options of the command line, and the value that they make.

An option belongs to the tasks whose options (`jobs.spec`) have a field of its name. To give one that the task does not
have is an error: nothing that was asked for is left out in silence.
"""

import dataclasses
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from jobs.errors import SpecError
from jobs.spec import OPTIONS, Bos, CachePolicy, Method, Options, Task, Timing, Window

Command = TypeVar("Command", bound=Callable[..., Any])

# How a corpus is read depends on the task too. (Whether pairs are scored, on the model: see `refuse_fields`.)
OF_CORPUS: Mapping[str, Collection[Task]] = {
    "text_field": (Task.TRANSLATE, Task.SCORE),
    "source_field": (Task.SCORE,),
    "target_field": (Task.SCORE,),
    "run": (Task.RERANK,),
}


class GroupedCommand(click.Command):
    """A command whose help lists the options of each task under a heading."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {"Options": []}
        for parameter in self.get_params(ctx):
            if isinstance(parameter, click.Option) and (record := parameter.get_help_record(ctx)):
                heading = parameter.heading if isinstance(parameter, TaskOption) else "Options"
                sections.setdefault(heading, []).append(record)
        for heading, records in sections.items():
            with formatter.section(heading):
                formatter.write_dl(records)


class TaskOption(click.Option):
    """An option that not every task has."""

    def __init__(self, *args: Any, heading: str, **kw: Any) -> None:
        super().__init__(*args, **kw)
        self.heading = heading


def task_options(command: Command) -> Command:
    """The options of all tasks, in the order of the help."""
    for decorate in reversed((*_TRANSLATE, *_SCORE, *_RERANK)):
        command = decorate(command)
    return command


def make_options(task: Task, values: Mapping[str, Any]) -> Options:
    """The options of a task, from the values of this call's options; raise SpecError for one that the task has not."""
    names = {field.name for field in dataclasses.fields(OPTIONS[task])}
    for name in values:
        if name not in names and task not in OF_CORPUS.get(name, ()) and is_given(name):
            raise SpecError(f"{flag(name)} is for {_tasks_of(name)}, and the task is {task}: leave it out")
    given = {name: value for name, value in values.items() if name in names}
    if "cache" in given:
        given["cache"] = CachePolicy.parse(given["cache"])
    for name, kind in {"timing": Timing, "window": Window, "bos": Bos, "method": Method}.items():
        if name in given:
            given[name] = kind(given[name])
    return OPTIONS[task](**given)


def refuse_fields(names: Collection[str], model: str, why: str) -> None:
    """Raise SpecError where one of these options was given, which a model of this kind has no use for."""
    for name in names:
        if is_given(name):
            raise SpecError(f"{flag(name)} makes no sense here: {model} {why}; leave it out")


def is_given(name: str) -> bool:
    """Whether the option of that name stands on the command line of this call."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE


def flag(name: str) -> str:
    """As it is written: `--beam-size`."""
    parameter = next(one for one in click.get_current_context().command.params if one.name == name)
    return parameter.opts[-1]


def _tasks_of(name: str) -> str:
    tasks = OF_CORPUS.get(name) or [
        task for task, options in OPTIONS.items() if name in {field.name for field in dataclasses.fields(options)}
    ]
    return " and ".join(f"--task {task}" for task in tasks)


def _option(heading: str, *names: str, **how: Any) -> Callable[[Command], Command]:
    decorate: Callable[[Command], Command] = click.option(*names, cls=TaskOption, heading=heading, **how)
    return decorate


def _choice(kind: Any) -> click.Choice[str]:
    return click.Choice([member.value for member in kind])


_T, _S, _R = "Translate", "Score", "Rerank"

_TRANSLATE = (
    _option(
        _T, "--beam-size", type=int, help="Hypotheses followed at once; 1 is greedy search.  [default: the model's]"
    ),
    _option(
        _T,
        "--n-best",
        type=int,
        default=1,
        show_default=True,
        help="Translations kept for each document; some may be equal, of other tokens.",
    ),
    _option(
        _T, "--length-penalty", type=float, help="Exponent on length when beams are ranked.  [default: the model's]"
    ),
    _option(_T, "--max-new-tokens", type=int, help="The longest translation of a segment.  [default: the model's]"),
    _option(
        _T,
        "--allow-pad",
        is_flag=True,
        help="Let the model say padding where its settings do not forbid it, as transformers does.",
    ),
    _option(_T, "--source-language", default="en", show_default=True, help="For the sentence splitter, e.g. en or de."),
    _option(
        _T,
        "--target-language",
        metavar="LABEL",
        help="For a model with several target languages, e.g. fra. Also when it scores pairs.",
    ),
    _option(
        _T,
        "--cache",
        default="auto",
        show_default=True,
        metavar="MODE",
        help="Reuse keys and values: auto, on, off or hybrid:N.",
    ),
    _option(
        _T, "--batch-size", type=int, default=32, show_default=True, help="Segments that one model call processes."
    ),
    _option(
        _T,
        "--reuse/--no-reuse",
        default=True,
        show_default=True,
        help="Take segments that were translated before from memory; and documents that were scored before.",
    ),
)
_SCORE = (
    _option(
        _S,
        "--window",
        type=_choice(Window),
        default=Window.STRIDE.value,
        show_default=True,
        help="How a document is read that is longer than the model's context: in windows that overlap, in windows one "
        "after the other, or its start alone.",
    ),
    _option(
        _S,
        "--max-length",
        type=int,
        metavar="TOKENS",
        help="The longest window; for rerank the longest query with its candidate.  [default: what the model takes]",
    ),
    _option(
        _S,
        "--stride",
        type=int,
        metavar="TOKENS",
        help="From one window to the next.  [default: half of --max-length]",
    ),
    _option(
        _S,
        "--bos",
        type=_choice(Bos),
        default=Bos.AUTO.value,
        show_default=True,
        help="What stands before the first token, so that it can be scored; auto: the tokenizer's BOS if it has one.",
    ),
    _option(_S, "--token-scores", is_flag=True, help="Keep the log-probability of every token."),
    _option(
        _S,
        "--packing/--no-packing",
        default=True,
        show_default=True,
        help="Many documents in one row of a model call, without padding.",
    ),
    _option(_S, "--source-field", default="source", show_default=True, help="With a translation model: the source."),
    _option(
        _S, "--target-field", default="target", show_default=True, help="With a translation model: what is scored."
    ),
)
_RERANK = (
    _option(
        _R,
        "--run",
        type=click.Path(),
        metavar="FILE",
        help="A run in TREC's format: what was found for the queries of CORPUS, which is a folder as BEIR has them.",
    ),
    _option(
        _R,
        "--method",
        type=_choice(Method),
        default=Method.QUERY_LIKELIHOOD.value,
        show_default=True,
        help="A candidate's score: the mean log-probability of the query after the document, or of the document after "
        "the query.",
    ),
    _option(
        _R,
        "--template",
        metavar="TEXT",
        help="What the model reads; holds {query} and {document}, and ends with what is scored.  [default: the "
        "method's]",
    ),
    _option(
        _R,
        "--fusion",
        type=float,
        default=0.0,
        show_default=True,
        metavar="WEIGHT",
        help="How much the first stage's score counts, from 0 (the model alone) to 1 (the first stage alone).",
    ),
    _option(
        _R,
        "--prefix-cache/--no-prefix-cache",
        default=True,
        show_default=True,
        help="Compute only once what several sequences begin with.",
    ),
)
