"""The setting `routes`: the model of each pair of languages, or the two models of a way through a third language.

A JSON object; in kvjobs.toml the table [routes]:

    "fr-en" = "opus-mt-fr-en"
    "fr-de" = ["opus-mt-fr-en", "opus-mt-en-de"]            the language in the middle is in the names
    "sw-de" = ["nllb", "en", "nllb"]                        or between the models

Knows: pairs, names of models. Does not know: whether there are such models.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jobs.errors import SpecError
from jobs.routing.language_pair import pair_of


def normalized(language: str) -> str:
    """A language tag in the form in which tags are compared: `pt-br` for `pt-BR` and `pt_br`."""
    return language.strip().lower().replace("_", "-")


def with_broader(language: str) -> list[str]:
    """A tag and the broader ones behind it: pt-br, pt."""
    parts = normalized(language).split("-")
    return ["-".join(parts[:length]) for length in range(len(parts), 0, -1)]


_EXAMPLE = '{"fr-en": "opus-mt-fr-en", "fr-de": ["opus-mt-fr-en", "opus-mt-en-de"]}'


@dataclass(frozen=True, slots=True)
class TableRoute:
    """How to get from one language to another: with one model, or with two and a language between them."""

    models: tuple[str, ...]
    via: str | None = None  # None: not known, or one model

    @property
    def is_direct(self) -> bool:
        return len(self.models) == 1


RouteTable = Mapping[str, TableRoute]  # by pair, as `normalized` writes it


def parse_table(text: str) -> RouteTable:
    """The routes by language pair. Raises SpecError for a text in another form than the module describes."""
    if not text.strip():
        return {}
    try:
        return _checked(json.loads(text))
    except (ValueError, RecursionError):
        raise SpecError(f"routes is not JSON; write an object: {_EXAMPLE}") from None


def read_table(value: Any) -> str:
    """The text, of a table as TOML gives it too. Raises SpecError for anything else."""
    if isinstance(value, str):
        parse_table(value)
        return value.strip()
    _checked(value)
    return json.dumps(value, ensure_ascii=False, separators=(", ", ": ")) if value else ""


def find_route(table: RouteTable, source: str, target: str) -> TableRoute | None:
    """The route of a language pair, else the route of the broader languages: `fr-en` for `fr-CA` to `en`."""
    pairs = (f"{a}-{b}" for b in with_broader(target) for a in with_broader(source))
    return next((table[pair] for pair in pairs if pair in table), None)


def routes_into(table: RouteTable, target: str) -> Mapping[str, TableRoute]:
    """The routes that end in a language, by the language that they begin with; routes of broader languages come last:
    with `fr-de-at` and `fr-de`, `de-AT` has the first."""
    found: dict[str, TableRoute] = {}
    for ending in with_broader(target):
        for pair, route in table.items():
            if pair.endswith(f"-{ending}"):
                found.setdefault(pair.removesuffix(f"-{ending}"), route)
    return found


def _checked(value: Any) -> RouteTable:
    if not isinstance(value, Mapping):
        raise SpecError(f"routes is not a table of pairs; write: {_EXAMPLE}")
    table: dict[str, TableRoute] = {}
    for pair, names in value.items():
        written = normalized(pair)
        if len([part for part in written.split("-") if part]) < 2:
            raise SpecError(f"routes has the pair {pair!r}; write SOURCE-TARGET: {_EXAMPLE}")
        if written in table:
            raise SpecError(f"routes has the pair {pair!r} twice; leave one of them out")
        table[written] = _route(pair, names)
    return table


def _route(pair: str, names: Any) -> TableRoute:
    listed = [names] if isinstance(names, str) else names
    if (
        not isinstance(listed, list)
        or not 1 <= len(listed) <= 3
        or not all(isinstance(name, str) and name.strip() for name in listed)
    ):
        raise SpecError(
            f"routes of {pair!r} is {names!r}; write the name of a model, or a list of two, with the language in the "
            f"middle between them where their names do not say it: {_EXAMPLE}"
        )
    if len(listed) == 3:
        return TableRoute((listed[0], listed[2]), listed[1].strip())
    return TableRoute(tuple(listed), middle_of(*listed) if len(listed) == 2 else None)


def middle_of(first: str, second: str) -> str | None:
    """The language between two models, by the name of one of them; None where neither says it. Raises SpecError where
    the first translates into another language than the second reads."""
    into, out_of = pair_of(first), pair_of(second)
    if into and out_of and into[1] != out_of[0]:
        raise SpecError(
            f"{first} translates into {into[1]!r}, and {second} reads {out_of[0]!r}, by their names: the second model "
            "has to read what the first one writes"
        )
    if into:
        return into[1]
    return out_of[0] if out_of else None
