"""The models that a user asks for, before anybody has looked at them: names and languages.

    --model A --via en --via-model B                        both named
    --model A --via en --target-language de                 the second from the table of routes
    --source-language fr --target-language de --via en      both from the table
    --model auto --target-language de                       of each language that the table translates into de

Knows: the command line's words, the table of routes. Does not know: model folders, revisions.
"""

from dataclasses import dataclass

from jobs.errors import SpecError
from jobs.routing.language_pair import pair_of
from jobs.routing.table import RouteTable, TableRoute, find_route, middle_of, normalized, routes_into

AUTO = "auto"  # in place of a model's name
ENGLISH = "en"  # the default of --source-language


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedLeg:
    """One translation: a model by its name, and the languages as far as they are known."""

    model: str
    source: str
    target: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRoute:
    """One or two translations of the documents of a language."""

    legs: tuple[PlannedLeg, ...]
    language: str | None = None  # None: of all documents
    via: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PivotRequest:
    """The options of a translation through a language in the middle; None: not given."""

    model: str | None
    via: str | None
    via_model: str | None
    source: str | None
    target: str | None

    def plan(self, table: RouteTable) -> PlannedRoute:
        """The two models. Raises SpecError where one of them is neither named nor in the table."""
        middle = self.via  # as it is written: a label of a multilingual model may have capitals
        if self.model and self.via_model:
            middle = middle or middle_of(self.model, self.via_model)
        elif middle is None:
            raise SpecError(
                "--via-model is the second of two models: name the first with --model, or give --via LANGUAGE, and the "
                "table [routes] has it"
            )
        first = self.model or _in_table(table, self.source, middle, "--source-language", "--model")
        second = self.via_model or _in_table(table, middle, self.target, "--target-language", "--via-model")
        named = pair_of(first)
        source = self.source or (named[0] if named else ENGLISH)
        return PlannedRoute(
            legs=(
                PlannedLeg(model=first, source=source, target=middle),
                PlannedLeg(model=second, source=middle or ENGLISH, target=self.target),
            ),
            via=middle,
        )


def plan_by_language(table: RouteTable, target: str | None) -> tuple[PlannedRoute, ...]:
    """A route for each language that the table translates into `target`. Raises SpecError where there is none."""
    if target is None:
        raise SpecError("--model auto chooses models by the language of each document: give --target-language as well")
    found = routes_into(table, target)
    if not found:
        known = f"its pairs are {', '.join(sorted(table))}" if table else "it is empty"
        raise SpecError(
            f"the table [routes] has no pair that ends in {normalized(target)}; {known}. Add pairs to kvjobs.toml: "
            f'"SOURCE-{normalized(target)}" = "MODEL"'
        )
    return tuple(_by_language(language, route, target) for language, route in sorted(found.items()))


def _by_language(language: str, route: TableRoute, target: str) -> PlannedRoute:
    if route.is_direct:
        legs: tuple[PlannedLeg, ...] = (PlannedLeg(model=route.models[0], source=language, target=target),)
    else:
        first, second = route.models
        legs = (
            PlannedLeg(model=first, source=language, target=route.via),
            PlannedLeg(model=second, source=route.via or ENGLISH, target=target),
        )
    return PlannedRoute(legs=legs, language=language, via=route.via)


def _in_table(table: RouteTable, source: str | None, target: str | None, language: str, option: str) -> str:
    """The model of a language pair. `language`, `option`: the options that name a missing language, or the model."""
    if source is None or target is None:
        raise SpecError(f"give {language}, and the table [routes] has the model; or name the model with {option}")
    found = find_route(table, source, target)
    pair = f"{normalized(source)}-{normalized(target)}"
    if found is None:
        known = f"its pairs are {', '.join(sorted(table))}" if table else "it is empty"
        raise SpecError(
            f'the table [routes] has no {pair}; {known}. Add "{pair}" = "MODEL" to kvjobs.toml, or name the model with '
            f"{option}"
        )
    if not found.is_direct:
        raise SpecError(
            f"the route {pair} has two models itself ({', '.join(found.models)}), and a text goes through one language "
            f"in the middle at most: name one model with {option}"
        )
    return found.models[0]
