"""The options of `kvjobs submit` that belong to a task, and the value that they make.

An option belongs to the tasks whose options (`jobs.spec`) have a field of its name. An option of another task is
refused rather than ignored.
"""

import dataclasses
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from jobs.cli.choice import Choice
from jobs.cli.number_types import number_type
from jobs.errors import SpecError
from jobs.option_numbers import NUMBERS
from jobs.tasks.kinds import OPTIONS, Options
from jobs.tasks.rerank import Method
from jobs.tasks.score import Bos, Window
from jobs.tasks.shared_options import CachePolicy, Timing
from jobs.tasks.task import Task

Command = TypeVar("Command", bound=Callable[..., Any])

# How a corpus is read depends on the task too. (Whether pairs are scored depends on the model: see `refuse_fields`.)
OF_CORPUS: Mapping[str, Collection[Task]] = {
    "text_field": (Task.TRANSLATE, Task.SCORE, Task.GENERATE),
    "source_field": (Task.SCORE,),
    "target_field": (Task.SCORE,),
    "run": (Task.RERANK,),
}


# Several models: see `jobs.routing.plan`.
OF_ROUTES: Mapping[str, Collection[Task]] = dict.fromkeys(("via", "via_model", "language_field"), (Task.TRANSLATE,))


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
    """An option of some tasks, with the heading under which the help lists it."""

    def __init__(self, *args: Any, heading: str, **kw: Any) -> None:
        super().__init__(*args, **kw)
        self.heading = heading


def task_options(command: Command) -> Command:
    """Add the options of all tasks to a command, in the order of its help."""
    for decorate in reversed((*_OF_SEVERAL, *_TRANSLATE, *_SCORE, *_RERANK, *_GENERATE)):
        command = decorate(command)
    return command


def parse_task_options(task: Task, values: Mapping[str, Any]) -> Options:
    """The options of a task from the values of this call; raises SpecError for an option of another task."""
    names = {field.name for field in dataclasses.fields(OPTIONS[task])}
    for name in values:
        if name not in names and task not in _beside_options(name) and is_given(name):
            raise SpecError(f"{flag(name)} is for {_tasks_of(name)}, and the task is {task}: leave it out")
    given = {name: value for name, value in values.items() if name in names and value is not None}
    if "cache" in given:
        given["cache"] = CachePolicy.parse(given["cache"])
    for name, kind in {"timing": Timing, "window": Window, "bos": Bos, "method": Method}.items():
        if name in given:
            given[name] = kind(given[name])
    return OPTIONS[task](**given)


def refuse_fields(names: Collection[str], model: str, why: str) -> None:
    """Raise SpecError if one of these options was given: a model of this kind does not use them."""
    for name in names:
        if is_given(name):
            raise SpecError(f"{flag(name)} has no meaning here: {model} {why}; leave it out")


def is_given(name: str) -> bool:
    """Whether this option was given on the command line, even with its default value."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE


def flag(name: str) -> str:
    """The option as the user writes it: `--beam-size`."""
    parameter = next(one for one in click.get_current_context().command.params if one.name == name)
    return parameter.opts[-1]


def _beside_options(name: str) -> Collection[Task]:
    """The tasks of an option that is no field of their options."""
    return OF_CORPUS.get(name) or OF_ROUTES.get(name, ())


def _tasks_of(name: str) -> str:
    tasks = _beside_options(name) or [
        task for task, options in OPTIONS.items() if name in {field.name for field in dataclasses.fields(options)}
    ]
    return " and ".join(f"--task {task}" for task in tasks)


def _option(heading: str, *names: str, **how: Any) -> Callable[[Command], Command]:
    decorate: Callable[[Command], Command] = click.option(*names, cls=TaskOption, heading=heading, **how)
    return decorate


def _choice(kind: Any) -> Choice:
    return Choice([member.value for member in kind])


_T, _S, _R, _G = "Translate", "Score", "Rerank", "Generate"
_SEVERAL = "Several tasks"

_OF_SEVERAL = (
    _option(
        _SEVERAL,
        "--reuse/--no-reuse",
        default=True,
        show_default=True,
        help="translate, score: reuse stored translations of segments, and stored scores of documents, or compute all "
        "again.",
    ),
    _option(
        _SEVERAL,
        "--max-new-tokens",
        type=number_type(NUMBERS["max_new_tokens"]),
        help="translate: the longest translation of a segment, in tokens; generate: of a prompt.  [default: the "
        "model's; generate: 256]",
    ),
    _option(
        _SEVERAL,
        "--cache",
        default="auto",
        show_default=True,
        metavar="MODE",
        help="translate, generate: use the KV cache: auto, on, off; translate: or hybrid:N (only after the first N "
        "steps).",
    ),
    _option(
        _SEVERAL,
        "--batch-size",
        type=number_type(NUMBERS["batch_size"]),
        help="translate, generate: sentences, or prompts, in one model call.  [default: as suits the model's size; "
        "generate: 32]",
    ),
    _option(
        _SEVERAL,
        "--prefix-cache/--no-prefix-cache",
        default=True,
        show_default=True,
        help="rerank, generate: compute a common beginning of several sequences only once.",
    ),
    _option(
        _SEVERAL,
        "--max-length",
        type=number_type(NUMBERS["max_length"]),
        metavar="TOKENS",
        help="score: the longest window; rerank: the longest query with its candidate.  [default: the model's context]",
    ),
)
_TRANSLATE = (
    _option(
        _T,
        "--beam-size",
        type=number_type(NUMBERS["beam_size"]),
        help="Number of beams; 1 is greedy search.  [default: the model's]",
    ),
    _option(
        _T,
        "--n-best",
        type=number_type(NUMBERS["n_best"]),
        default=1,
        show_default=True,
        help="Translations to keep of each document. Different tokens may make equal texts.",
    ),
    _option(
        _T,
        "--length-penalty",
        type=number_type(NUMBERS["length_penalty"]),
        help="Exponent of the length by which the score of a beam is divided.  [default: the model's]",
    ),
    _option(
        _T,
        "--allow-pad",
        is_flag=True,
        help="Allow the padding token in translations if the model's settings do not forbid it, as transformers does.",
    ),
    _option(
        _T,
        "--source-language",
        metavar="LANGUAGE",
        default="en",
        show_default=True,
        help="The language of the texts, for splitting sentences, e.g. en or de; for a model with several source "
        "languages also that of its tokens, e.g. deu_Latn; also if it scores pairs.",
    ),
    _option(
        _T,
        "--target-language",
        metavar="LANGUAGE",
        help="For a model with several target languages: its own name of it, e.g. fra or fra_Latn, or another code of "
        "the language, e.g. fr; also if it scores pairs. With --via: the language to end in.",
    ),
    _option(
        _T,
        "--via",
        metavar="LANGUAGE",
        help="Translate into this language first, and from it with a second model; both texts are kept. --model and "
        "--via-model name the two, or the table [routes] of kvjobs.toml has them.",
    ),
    _option(
        _T,
        "--language-field",
        default="lang",
        show_default=True,
        help="With --model auto: the field that holds a document's language. Where it is missing or empty, it is "
        "--source-language, if that is given.",
    ),
    _option(_T, "--via-model", metavar="NAME", help="The second model, which reads what --model writes."),
)
_SCORE = (
    _option(
        _S,
        "--window",
        type=_choice(Window),
        default=Window.STRIDE.value,
        show_default=True,
        help="How to read a document longer than the model's context: in overlapping windows, in windows side by side, "
        "or only its beginning.",
    ),
    _option(
        _S,
        "--stride",
        type=number_type(NUMBERS["stride"]),
        metavar="TOKENS",
        help="The distance from one window to the next.  [default: half of --max-length]",
    ),
    _option(
        _S,
        "--bos",
        type=_choice(Bos),
        default=Bos.AUTO.value,
        show_default=True,
        help="The token to put before the first one, so that this can be scored; auto: the tokenizer's BOS, if it has "
        "one.",
    ),
    _option(_S, "--token-scores", is_flag=True, help="Store the log-probability of every token."),
    _option(
        _S,
        "--packing/--no-packing",
        default=True,
        show_default=True,
        help="Put several documents into one row of a model call, instead of padding.",
    ),
    _option(
        _S,
        "--source-field",
        default="source",
        show_default=True,
        help="With a translation model: the field of the source.",
    ),
    _option(
        _S,
        "--target-field",
        default="target",
        show_default=True,
        help="With a translation model: the field of the target, which is scored.",
    ),
)
_RERANK = (
    _option(
        _R,
        "--run",
        type=click.Path(),
        metavar="FILE",
        help="A TREC run with the candidates of each query; CORPUS is then a folder in BEIR's layout.",
    ),
    _option(
        _R,
        "--method",
        type=_choice(Method),
        help="The score of a candidate: the mean log-probability of the query given the document, or of the document "
        "given the query; how likely a causal model answers yes, as Qwen3-Reranker is asked; or what a cross-encoder "
        "gives for both.  [default: query-likelihood; of a cross-encoder: cross-encoder]",
    ),
    _option(
        _R,
        "--template",
        metavar="TEXT",
        help="The prompt: contains {query} and {document}, and ends with the one that is scored; yes-no: the user's "
        "message.  [default: the method's]",
    ),
    _option(
        _R,
        "--fusion",
        type=number_type(NUMBERS["fusion"]),
        default=0.0,
        show_default=True,
        metavar="WEIGHT",
        help="The weight of the first stage's score, from 0 (only the model) to 1 (only the first stage).",
    ),
)
_GENERATE = (
    _option(
        _G,
        "--temperature",
        type=number_type(NUMBERS["temperature"]),
        default=0.0,
        show_default=True,
        help="Draw each token from the model's distribution, its logits divided by this; 0: take the most likely one.",
    ),
    _option(
        _G,
        "--top-p",
        type=number_type(NUMBERS["top_p"]),
        default=1.0,
        show_default=True,
        metavar="P",
        help="Draw from the most likely tokens that together have this probability.",
    ),
    _option(
        _G,
        "--top-k",
        type=number_type(NUMBERS["top_k"]),
        default=0,
        show_default=True,
        metavar="K",
        help="Draw from so many of the most likely tokens; 0: from all.",
    ),
    _option(
        _G,
        "--seed",
        type=number_type(NUMBERS["seed"]),
        default=0,
        show_default=True,
        help="Of the random numbers: with the same seed, a document gets the same text again.",
    ),
    _option(
        _G,
        "--stop",
        multiple=True,
        metavar="TEXT",
        help="End a continuation before this text, for example a line break ($'\\n' in bash); may be given again.",
    ),
    _option(
        _G,
        "--chat",
        is_flag=True,
        help="Documents are messages, or a text of the user, which the model's chat template turns into a prompt.",
    ),
    _option(_G, "--system", metavar="TEXT", help="With --chat: a message of the system before each document."),
)
