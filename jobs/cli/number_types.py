"""The types of options that are numbers: a range, as click asks for it."""

from typing import Any

import click

from jobs.errors import SpecError
from jobs.number_ranges import LARGEST, SECONDS, Real, Whole


class WholeNumber(click.IntRange):
    """A whole number; the help shows its range, but not the end that only keeps a database from refusing it."""

    def __init__(self, numbers: Whole) -> None:
        super().__init__(numbers.least, numbers.most if numbers.most < LARGEST else None)
        self.numbers = numbers

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        number: int = _converted(self, value, param, ctx)
        return number


class RealNumber(click.FloatRange):
    """A finite number."""

    def __init__(self, numbers: Real) -> None:
        shown = None if numbers.most == SECONDS.most else numbers.most
        super().__init__(numbers.least, shown, min_open=numbers.without_least)
        self.numbers = numbers

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number: float = _converted(self, value, param, ctx)
        return number


def number_type(numbers: Whole | Real) -> WholeNumber | RealNumber:
    """The type of an option that takes these numbers."""
    return WholeNumber(numbers) if isinstance(numbers, Whole) else RealNumber(numbers)


def _converted(kind: Any, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
    try:
        return kind.numbers.parse(value) if isinstance(value, str) else kind.numbers.check(value)
    except SpecError as error:
        kind.fail(str(error), param, ctx)
