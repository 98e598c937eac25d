"""How many documents of a corpus may be rejected (`--max-rejected`). A submit refuses a corpus with more; a job with no
more exits with 0 if all its other documents are ok."""

import re
from dataclasses import dataclass
from decimal import Decimal

from jobs.errors import SpecError

MAX_REJECTED = "max_rejected"  # the key in `jobs.reading`, with a text that `Tolerance.parse` reads
_NUMBER = re.compile(r"[0-9]{1,18}")
_SHARE = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,9})?) ?%")


@dataclass(frozen=True, slots=True)
class Tolerance:
    """A number of lines, or a percentage of all documents: one of the two."""

    lines: int | None = None
    percent: Decimal | None = None

    @classmethod
    def parse(cls, value: "int | str | Tolerance") -> "Tolerance":
        """Parse `10` or `0.5%`. Raises SpecError for anything else."""
        text = str(value)
        if _NUMBER.fullmatch(text):
            return cls(lines=int(text))
        if (share := _SHARE.fullmatch(text)) and (percent := Decimal(share[1])) <= 100:
            return cls(percent=percent)
        raise SpecError(f"{text!r} is neither a number of lines, such as 10, nor a share from 0% to 100%, such as 0.5%")

    def allows(self, rejected: int, documents: int) -> bool:
        """Whether so many of so many documents may be rejected."""
        if self.percent is None:
            return rejected <= (self.lines or 0)
        return rejected * 100 <= self.percent * documents

    def __str__(self) -> str:
        return f"{self.lines}" if self.percent is None else f"{self.percent}%"
