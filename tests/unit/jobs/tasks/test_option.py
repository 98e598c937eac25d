"""Options from plain values, as a command, Python or JSON gives them: each is checked, and none is ignored."""

import json
from typing import Any

import pytest

from jobs.errors import SpecError
from jobs.spec import JobSpec
from jobs.tasks.generate import GenerateOptions
from jobs.tasks.kinds import KINDS, every_option, read_options
from jobs.tasks.option import Option
from jobs.tasks.score import ScoreOptions, Window
from jobs.tasks.shared_options import CachePolicy
from jobs.tasks.task import Task

OPTIONS = [(task, option) for task in Task for option in KINDS[task].offered.values()]


def wrong_values(option: Option) -> list[Any]:
    wrong: list[Any] = [{}, 5j, object()]
    return wrong if option.type is not str else [*wrong, 5, True]


@pytest.mark.parametrize("task", Task)
def test_the_defaults_of_a_task_are_values_of_its_options(task: Task) -> None:
    row = JobSpec(task=task, model="m", model_revision="r", options=read_options(task, {})).options_json()
    plain = {name: value for name, value in json.loads(row).items() if name in KINDS[task].offered}

    assert read_options(task, plain) == read_options(task, {})


def test_plain_values_become_those_of_the_options() -> None:
    assert read_options(Task.SCORE, {"window": "disjoint", "max_length": 64}) == ScoreOptions(
        window=Window.DISJOINT, max_length=64
    )
    assert read_options(Task.GENERATE, {"stop": ["a"], "cache": "off", "temperature": 1}) == GenerateOptions(
        stop=("a",), cache=CachePolicy("off"), temperature=1.0
    )


@pytest.mark.parametrize(("task", "option"), OPTIONS, ids=lambda one: getattr(one, "name", None))
def test_a_value_of_another_type_is_refused_by_the_name_of_its_option(task: Task, option: Option) -> None:
    for value in wrong_values(option):
        with pytest.raises(SpecError, match=option.name):
            read_options(task, {option.name: value})


@pytest.mark.parametrize("task", Task)
def test_an_option_that_the_task_lacks_is_refused(task: Task) -> None:
    for name in every_option().keys() - KINDS[task].offered.keys():
        with pytest.raises(SpecError, match=rf"^{every_option()[name].flag} .*--task "):
            read_options(task, {name: None})


def test_an_option_that_is_none_gets_the_nearest_name() -> None:
    with pytest.raises(SpecError, match="beam_size"):
        read_options(Task.TRANSLATE, {"beamsize": 4})
    with pytest.raises(SpecError, match="routes"):  # the table of routes decides it, nobody gives it
        read_options(Task.TRANSLATE, {"routes": []})


def test_the_words_of_a_command_set_an_option() -> None:
    named = every_option()

    assert [*named["reuse"].words(False)] == ["--no-reuse"]
    assert [*named["chat"].words(True)] == ["--chat"]
    assert [*named["stop"].words(("a", "b"))] == ["--stop", "a", "--stop", "b"]
    assert [*named["cache"].words(CachePolicy("hybrid", 2))] == ["--cache", "hybrid:2"]


@pytest.mark.parametrize(("task", "option"), OPTIONS, ids=lambda one: getattr(one, "name", None))
def test_an_option_reads_the_texts_of_its_own_words(task: Task, option: Option) -> None:
    """What a command would write for a value, a query string gives back as the value."""
    for value in (option.default, *option.choices[:1], *([True, False] if option.type is bool else [])):
        if value is None:
            continue
        texts = [str(item).lower() if item is True or item is False else str(item) for item in _several(value)]
        assert option.read_texts(texts) == option.read(value)


def _several(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def test_texts_that_an_option_cannot_have_are_refused_by_its_name() -> None:
    named = every_option()

    for name, texts in (("beam_size", ["x"]), ("beam_size", ["1", "2"]), ("reuse", ["no"]), ("cache", ["x"])):
        with pytest.raises(SpecError, match=f"^{name}"):
            named[name].read_texts(texts)
    assert named["reuse"].read_texts([""]) is True
    assert named["stop"].read_texts(["a", "b"]) == ("a", "b")
