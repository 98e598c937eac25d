"""
The words that may stand in for placeholders in the sentences of a model: tried when it is added, stored in kvjobs.json.

Needs only the standard library: commands that read a manifest have to start at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class StandIn:
    """A word that may stand in a sentence for a placeholder."""

    form: str  # in a source
    written: str  # what the model writes for it


@dataclass(frozen=True, slots=True)
class StandIns:
    """Which words may stand in for placeholders, since the model writes them always in the same way."""

    numbers: bool = False  # whether it copies numbers
    names: tuple[StandIn, ...] = ()
    days: tuple[StandIn, ...] = ()  # of the week

    def __bool__(self) -> bool:
        """Whether there is any."""
        return self.numbers or bool(self.names or self.days)

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Self:
        """As `kvjobs.json` has it; raises KeyError, TypeError or ValueError where it is damaged."""
        names, days = (
            tuple(StandIn(str(word["form"]), str(word["written"])) for word in words)
            for words in (content["names"], content.get("days", ()))  # a model of an older version has no days
        )
        if not all(word.form and word.written for word in (*names, *days)):
            raise ValueError("a stand-in without letters")
        return cls(content["numbers"] is True, names, days)


NO_STAND_INS = StandIns()
