"""
The three kinds of departures of a graph from its configuration.

Their texts are stored in the manifests of models. A changed wording would make `inspect` report a departure twice: as
stored, and as found again.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limit:
    """The graph is right for texts of up to `positions` tokens."""

    positions: int
    text: str  # the reason, as a clause: "rope_scaling of longrope has ..."


@dataclass(frozen=True, slots=True)
class Contradiction:
    """The graph shows another value than the configuration asks for."""

    text: str


@dataclass(frozen=True, slots=True)
class Suspicion:
    """The graph does not show a setting of the configuration, and may have it in a form that is not known here."""

    text: str


Departure = Limit | Contradiction | Suspicion
