"""The type of a number of bytes on the command line."""

import re
from typing import Any

import click

_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}  # powers of 2


class Bytes(click.ParamType[int]):
    """A number of bytes, as 500M, 1.5G, 2GiB or 2GB: units are powers of 1,024."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        match = re.fullmatch(r"([0-9]{1,15}(?:\.[0-9]{1,15})?)\s*([kmgt]?)(?:i?b)?", str(value).strip().lower())
        size = int(float(match[1]) * (1 << _UNITS[match[2]])) if match else 0
        if not 0 < size < 1 << 60:
            self.fail(f"{value!r} is not a size: write 500M or 1.5G", param, ctx)
        return size
