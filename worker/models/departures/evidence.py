"""What looking at a graph gives: three kinds of departures from its configuration."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limit:
    """The graph is right for texts of up to so many tokens."""

    positions: int
    text: str  # why, as a part of a sentence: "rope_scaling of longrope has ..."


@dataclass(frozen=True, slots=True)
class Contradiction:
    """The graph shows something else than the configuration asks for."""

    text: str


@dataclass(frozen=True, slots=True)
class Suspicion:
    """What the configuration asks for is not seen, where it might be written in a way that is not known here."""

    text: str


Departure = Limit | Contradiction | Suspicion
