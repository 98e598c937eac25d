"""The type of a number of bytes on the command line."""

import re
from typing import Any

import click

_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}  # powers of 2


class Bytes(click.ParamType[int]):
    """A number of bytes, as 500M, 1.5G, 2GiB or 2GB: units are powers of 1,024."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        match = re.fullmatch(r"(\d{1,15}(?:\.\d{1,15})?)\s*([kmgt]?)(?:i?b)?", str(value).strip().lower())
        if match is None or not float(match[1]):
            self.fail(f"{value!r} is not a size: write 500M or 1.5G", param, ctx)
        return int(float(match[1]) * (1 << _UNITS[match[2]]))
