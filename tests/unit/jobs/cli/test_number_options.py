"""Every number that a person may give, at the command line, in a setting or in a job's options, is checked by one type:
none of the tree of commands, of the settings or of the options can be forgotten."""

import dataclasses
import types
import typing
from collections.abc import Iterator

import click
import pytest

from jobs import setting_values
from jobs.cli.main import cli
from jobs.cli.number_types import RealNumber, WholeNumber
from jobs.errors import SpecError
from jobs.number_ranges import Real, Whole, read_size
from jobs.provider_settings.token_price import TokenPrice
from jobs.queues import read_priority
from jobs.settings import Settings, read_settings
from jobs.spec import JobSpec
from jobs.tasks.generate import GenerateOptions
from jobs.tasks.kinds import OPTIONS, Options
from jobs.tasks.option import options_of
from jobs.tasks.shared_options import CachePolicy
from jobs.tasks.task import Task
from jobs.tasks.translate import TranslateOptions
from jobs.tolerance import Tolerance
from worker.cli.bench.cache import Lengths

NO_NUMBERS = ("nan", "inf", "-inf", "1e400", "99999999999999999999", "١٢", "1_000", "0x10", "", " ", "1,5", "five", "²")
OTHER_TYPES = (Lengths(),)  # that read numbers in their own way, and are asked below


def every_parameter(command: click.Command, path: str) -> Iterator[tuple[str, click.Parameter]]:
    """Of the command and those below it."""
    for parameter in command.params:
        yield f"{path} {parameter.opts[-1]}", parameter
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from every_parameter(below, f"{path} {name}")


PARAMETERS = dict(every_parameter(cli, "kvjobs"))
NUMBERS = {name: one.type for name, one in PARAMETERS.items() if isinstance(one.type, WholeNumber | RealNumber)}


def numeric_fields(kind: type) -> set[str]:
    """The fields of a data class that hold a number, or None."""
    found = set()
    for name, hint in typing.get_type_hints(kind).items():
        members = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
        if {int, float} & set(members):
            found.add(name)
    return found


def test_no_option_or_argument_has_a_bare_number() -> None:
    bare = (click.types.IntParamType, click.types.FloatParamType)
    assert len(NUMBERS) > 30
    assert [name for name, one in PARAMETERS.items() if isinstance(one.type, bare) and name not in NUMBERS] == []
    known = (WholeNumber, RealNumber, click.types.StringParamType, click.Choice, click.Path, click.File, click.Tuple)
    own = {type(one.type).__name__ for one in PARAMETERS.values() if not isinstance(one.type, known)}
    assert own == {"BoolParamType", "Parsed", "FileContent", *(type(one).__name__ for one in OTHER_TYPES)}, (
        "a new type: ask it too"
    )


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_of_the_command_line_is_in_its_range(name: str) -> None:
    kind = NUMBERS[name]
    numbers = kind.numbers
    for text in (*NO_NUMBERS, str(numbers.least - 1), str(numbers.most * 2 + 1)):
        with pytest.raises(click.BadParameter):
            kind.convert(text, None, None)
    assert kind.convert(str(numbers.most), None, None) == numbers.most


@pytest.mark.parametrize("kind", OTHER_TYPES, ids=lambda kind: kind.name)
@pytest.mark.parametrize("text", NO_NUMBERS)
def test_a_type_of_its_own_reads_numbers_as_strictly(kind: "click.ParamType[object]", text: str) -> None:
    if isinstance(kind, Lengths) and text == "1,5":
        return
    with pytest.raises(click.BadParameter):
        kind.convert(text, None, None)


@pytest.mark.parametrize("text", NO_NUMBERS)
def test_what_is_more_than_a_number_reads_its_numbers_as_strictly(text: str) -> None:
    for read, written in (
        (CachePolicy.parse, f"hybrid:{text}"),
        (read_priority, text),
        (read_size, text),
        (Tolerance.parse, text),
        (Tolerance.parse, f"{text}%"),
        (TokenPrice.parse, f"1,{text}"),
    ):
        with pytest.raises(SpecError):
            read(written)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=lambda kind: kind.__name__)
def test_every_number_of_a_jobs_options_has_a_range(options: type[Options]) -> None:
    declared = {option.name: option.numbers for option in options_of(options) if option.numbers is not None}
    assert declared.keys() == numeric_fields(options)
    for name, numbers in declared.items():
        for value in out_of(numbers):
            with pytest.raises(SpecError, match=f"^{name}: "):
                options(**{name: value})


def test_every_number_of_the_settings_has_a_range(tmp_path: "typing.Any") -> None:
    assert numeric_fields(Settings) == setting_values.NUMBERS.keys()
    for name, numbers in setting_values.NUMBERS.items():
        for value in out_of(numbers):
            if value == "5":
                continue  # a text in kvjobs.toml
            with pytest.raises(SpecError, match=name):
                Settings(home=tmp_path, models_dir=tmp_path, **{name: value})
        for text in NO_NUMBERS:
            if text:  # an empty variable is none
                with pytest.raises(SpecError, match=f"KVJOBS_{name.upper()}: {name}: "):
                    read_settings({"home": str(tmp_path)}, {f"KVJOBS_{name.upper()}": text})


def out_of(numbers: Whole | Real) -> list[object]:
    ends: list[object] = [numbers.least - 1, numbers.most * 2 + 1, 10**20, True, "5"]
    return [*ends, 2.5] if isinstance(numbers, Whole) else [*ends, float("nan"), float("inf"), float("-inf")]


def test_a_temperature_that_no_logits_can_be_divided_by_is_refused() -> None:
    with pytest.raises(SpecError, match="0 \\(greedy search\\)"):
        GenerateOptions(temperature=1e-320)


def test_a_job_of_an_older_version_with_such_a_number_is_refused_by_name() -> None:
    row = JobSpec(task=Task.TRANSLATE, model="m", model_revision="r", options=TranslateOptions(length_penalty=1.0))
    stored = row.options_json().replace('"length_penalty":1.0', '"length_penalty":NaN')

    with pytest.raises(SpecError, match=r"^length_penalty: nan .*-10 to 10"):
        JobSpec.restore(task="translate", model="m", model_revision="r", options_json=stored)


@pytest.mark.parametrize(
    ("numbers", "text", "number"),
    [
        (Whole(-5), "-5", -5),
        (Whole(), "+007", 7),
        (Real(-1, 1), "-.5", -0.5),
        (Real(0, 1), "1e-3", 0.001),
        (Real(0, 1), "1.", 1.0),
    ],
)
def test_a_number_may_be_written_in_the_usual_ways(numbers: Whole | Real, text: str, number: float) -> None:
    assert numbers.parse(text) == number


def test_the_end_that_is_without_is_no_number() -> None:
    for value in (0, 0.0, "0", "0.0", "-0"):
        numbers = Real(0, 1, without_least=True)
        with pytest.raises(SpecError, match=r"above 0 .*at most 1"):
            numbers.parse(value) if isinstance(value, str) else numbers.check(value)
    assert dataclasses.replace(numbers, without_least=False).check(0) == 0
