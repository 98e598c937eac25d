"""Routes: the models that translate a document, by its language. Frozen values; needs only the standard library.

fr -> en                one leg:  the model of the pair
fr -> en -> de          two legs: through the language in the middle, whose text is kept too
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jobs.errors import SpecError

BETWEEN = "+"  # the names of the models of two legs: `opus-mt-fr-en+opus-mt-en-de`


@dataclass(frozen=True, slots=True, kw_only=True)
class Leg:
    """One translation of a route: a model, its revision, and its languages."""

    model: str  # a name, or the absolute path of a model folder
    model_revision: str  # sha256 over the model's files
    source_language: str  # for the sentence splitter, and for a model that is told it
    target_language: str | None = None  # the label of a multilingual model, without >> and <<


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The models of the documents of one language. Raises SpecError unless there are one or two."""

    legs: tuple[Leg, ...]
    language: str | None = None  # of the documents; None: all of them
    via: str | None = None  # the language between two legs; None: not known, or one leg

    def __post_init__(self) -> None:
        if len(self.legs) not in (1, 2):
            raise SpecError(f"a route has one model or two, and this has {len(self.legs)}")

    @property
    def models(self) -> str:
        """The names of its models, as `jobs.model` has them."""
        return BETWEEN.join(leg.model for leg in self.legs)


def read_routes(value: Iterable[Mapping[str, Any]]) -> tuple[Route, ...]:
    """The routes of a job, from the JSON of its options. Raises SpecError for routes that a later version wrote."""
    try:
        return tuple(Route(**{**values, "legs": tuple(Leg(**leg) for leg in values["legs"])}) for values in value)
    except (TypeError, KeyError):
        raise SpecError("the job was submitted by a newer kvjobs: its routes are unknown here; upgrade") from None


def revision_of(routes: Sequence[Route]) -> str:
    """The revision of a job with routes: sha256 over the model revisions of all legs, in order."""
    revisions = (leg.model_revision for route in routes for leg in route.legs)
    return hashlib.sha256("\n".join(revisions).encode()).hexdigest()


def models_in_words(model: str, revision: str, options: Mapping[str, Any]) -> str:
    """The models of a job with the beginnings of their revisions. `options`: as in the job's row."""
    routes = read_routes(options.get("routes", ()))
    if not routes:
        return _named(model, revision)
    return "; ".join(map(_route_in_words, routes))


def _route_in_words(route: Route) -> str:
    language = f"{route.language}: " if route.language else ""
    models = ", then ".join(_named(leg.model, leg.model_revision) for leg in route.legs)
    return f"{language}{models}" + (f" (via {route.via})" if route.via else "")


def _named(model: str, revision: str) -> str:
    return f"{model} (revision {revision[:12]})"


def has_pivot(options: Mapping[str, Any]) -> bool:
    """Whether documents of a job may go through two models. `options`: as in the job's row."""
    return any(len(route["legs"]) > 1 for route in options.get("routes", ()))
