"""The numbers that an option or a setting may have: read from text, and checked, in one way everywhere.

Python's own `int` and `float` also take nan, inf, 1_000 and the digits of other scripts, and numbers that no column of
a database holds.
"""

import math
import re
from dataclasses import dataclass
from typing import Any

from jobs.errors import SpecError

LARGEST = 2**31 - 1  # what an INTEGER of PostgreSQL holds, and an int of C
_WHOLE = re.compile(r"[+-]?[0-9]{1,30}")
_REAL = re.compile(r"[+-]?([0-9]{1,300}(\.[0-9]{0,300})?|\.[0-9]{1,300})([eE][+-]?[0-9]{1,4})?")


@dataclass(frozen=True, slots=True)
class Whole:
    """The whole numbers from `least` to `most`."""

    least: int = 0
    most: int = LARGEST
    why: str = ""  # what an end of the range means

    def __str__(self) -> str:
        return f"a whole number from {self.least:,} to {self.most:,}" + (f" ({self.why})" if self.why else "")

    def parse(self, text: str) -> int:
        """The number that a text says. Raises SpecError, which does not name the option."""
        if not _WHOLE.fullmatch(text.strip()):
            raise SpecError(f"{text!r} is not {self}")
        return self.check(int(text))

    def check(self, value: Any) -> int:
        """The number itself. Raises SpecError for one that is not in the range, or no whole number."""
        if type(value) is not int or not self.least <= value <= self.most:
            raise SpecError(f"{value!r} is not {self}")
        return value


@dataclass(frozen=True, slots=True)
class Real:
    """The finite numbers from `least` to `most`."""

    least: float
    most: float
    why: str = ""
    without_least: bool = False  # all are above it

    def __str__(self) -> str:
        least, most = (f"{end:,.15g}" for end in (self.least, self.most))
        ends = f"above {least} and at most {most}" if self.without_least else f"from {least} to {most}"
        return f"a number {ends}" + (f" ({self.why})" if self.why else "")

    def parse(self, text: str) -> float:
        """The number that a text says. Raises SpecError, which does not name the option."""
        if not _REAL.fullmatch(text.strip()):
            raise SpecError(f"{text!r} is not {self}")
        number = float(text)
        if not self._has(number):
            raise SpecError(f"{text!r} is not {self}")
        return number

    def check(self, value: Any) -> float:
        """The number itself. Raises SpecError for one that is not in the range, or no number."""
        if type(value) not in (int, float) or not self._has(value):
            raise SpecError(f"{value!r} is not {self}")
        return float(value)

    def _has(self, number: float) -> bool:
        if isinstance(number, float) and not math.isfinite(number):
            return False
        return self.least <= number <= self.most and not (self.without_least and number == self.least)


SECONDS = Real(0, 366 * 86_400)  # that somebody waits: a year is for ever
POSITIVE_SECONDS = Real(0, 366 * 86_400, without_least=True)
EVERY_ID = Whole(1, 2**63 - 1)  # of a row


_SIZE = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,15})?)\s*([kmgt]?)(?:i?b)?")
_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}  # powers of 2


def read_size(value: int | str) -> int:
    """A number of bytes, from 500M, 1.5G, 2GiB or 2GB: units are powers of 1,024. Raises SpecError."""
    match = _SIZE.fullmatch(str(value).strip().lower())
    size = int(float(match[1]) * (1 << _UNITS[match[2]])) if match else 0
    if not 0 < size < 1 << 60:
        raise SpecError(f"{value!r} is not a size: write 500M or 1.5G")
    return size
