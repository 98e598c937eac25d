"""The type of a job's priority on the command line."""

from typing import Any

import click

from jobs.errors import SpecError, meant
from jobs.number_ranges import LARGEST, Whole

NUMBERS = Whole(-LARGEST, LARGEST)
PRIORITIES = {"low": -10, "normal": 0, "high": 10}


class Priority(click.ParamType[int]):
    """low, normal, high, or a number: higher goes first."""

    name = "priority"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return PRIORITIES[value] if value in PRIORITIES else NUMBERS.parse(str(value))
        except SpecError as error:
            self.fail(f"{error}, nor is it low, normal or high{meant(str(value), PRIORITIES)}", param, ctx)
