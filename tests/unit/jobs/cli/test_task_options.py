"""Options of the tasks: each sets the field that it names, and none is silently ignored."""

import dataclasses
import inspect

import click
import pytest

from jobs.cli.commands.submit import submit
from jobs.cli.submit_options import SubmitOptions
from jobs.tasks.kinds import KINDS, OPTIONS, every_option
from jobs.tasks.rerank import Method, RerankOptions
from jobs.tasks.score import Bos, ScoreOptions, Window
from jobs.tasks.shared_options import CachePolicy
from jobs.tasks.task import Task
from jobs.tasks.translate import TranslateOptions
from tests.command_line import Kvjobs

NOT_ASKED = {"pairs", "early_stopping", "routes", "own_options"}  # decided by models, so without an option of its own


def options_from(*arguments: str) -> object:
    """The task's options as a command line sets them."""
    helping = {"help_option_names": ["-h", "--help"]}  # those of `kvjobs`: click caches the help option it makes first
    with submit.make_context("submit", ["corpus.jsonl", *arguments], **helping) as context:
        return SubmitOptions.of(context.params).request.read_task_options()


def _task_names() -> set[str]:
    return {parameter.name or "" for parameter in submit.params} & every_option().keys()


def _own(task: Task) -> set[str]:
    return {option.name for option in KINDS[task].options}


@pytest.mark.parametrize("task", Task)
def test_without_options_the_defaults_are_those_of_the_spec(task: Task) -> None:
    assert options_from("--task", task.value) == OPTIONS[task]()


def test_the_value_of_every_option_reaches_the_spec() -> None:
    score = ("--window", "disjoint", "--max-length", "64", "--stride", "8", "--bos", "eos", "--token-scores")
    rerank = ("--method", "perplexity", "--template", "{query} {document}", "--fusion", "0.5", "--no-prefix-cache")

    assert options_from("--task", "score", *score, "--no-packing", "--target-language", "fra") == ScoreOptions(
        window=Window.DISJOINT,
        max_length=64,
        stride=8,
        bos=Bos.EOS,
        token_scores=True,
        packing=False,
        target_language="fra",
    )
    assert options_from("--task", "rerank", *rerank, "--max-length", "99") == RerankOptions(
        method=Method.PERPLEXITY, template="{query} {document}", fusion=0.5, prefix_cache=False, max_length=99
    )
    assert options_from("--cache", "hybrid:2", "--beam-size", "4") == TranslateOptions(
        cache=CachePolicy("hybrid", 2), beam_size=4
    )


@pytest.mark.parametrize("task", Task)
def test_each_field_of_a_spec_has_an_option(task: Task) -> None:
    there = {parameter.name for parameter in submit.params}
    assert {field.name for field in dataclasses.fields(OPTIONS[task])} - NOT_ASKED <= there


def test_the_options_of_the_command_are_those_that_the_tasks_declare() -> None:
    assert _task_names() == {option.name for kind in KINDS.values() for option in kind.options if option.help}


VALUES = {
    "beam_size": "4",
    "n_best": "2",
    "window": "stride",
    "bos": "auto",
    "method": "perplexity",
    "fusion": "0",
    "max_length": "2",
    "cache": "auto",
    "segment": "lines",
    "markup": "html",
    "placeholders": "auto",
    "glossary": f"sha256:{'0' * 64}",
    "no_translate": f"sha256:{'0' * 64}",
}


@pytest.mark.parametrize("task", Task)
def test_an_option_of_another_task_is_refused_by_name(kvjobs: Kvjobs, task: Task) -> None:
    """Even if its value is the default: a user who writes an option expects it to have an effect."""
    own = _own(task)
    for parameter in submit.params:
        name = parameter.name or ""
        if name not in every_option() or name in own:
            continue
        flag = parameter.opts[-1]
        value = [] if isinstance(parameter, click.Option) and (parameter.is_flag) else [VALUES.get(name, "1")]

        refused = kvjobs("submit", "corpus.jsonl", "--task", task.value, flag, *value)

        assert refused.exit_code == 2
        assert f"{flag} is for --task" in refused.err
        assert f"task is {task}" in refused.err


def test_the_help_lists_the_options_of_each_task_under_its_name(kvjobs: Kvjobs) -> None:
    shown = kvjobs("submit", "--help").out
    places = [shown.index(f"\n{heading}:\n") for heading in ("Options", "Translate", "Score", "Rerank")]

    assert places == sorted(places)
    assert places[1] < shown.index("--beam-size") < places[2] < shown.index("--window") < places[3]
    assert places[3] < shown.index("--fusion")
    assert inspect.getdoc(submit.callback)
