"""The type of a job's priority on the command line."""

from typing import Any

import click

PRIORITIES = {"low": -10, "normal": 0, "high": 10}


class Priority(click.ParamType[int]):
    """low, normal, high, or a number: higher goes first."""

    name = "priority"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return PRIORITIES[value] if value in PRIORITIES else int(value)
        except ValueError:
            self.fail(f"{value!r} is neither low, normal, high nor a whole number", param, ctx)
