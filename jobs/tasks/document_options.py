"""
What a document to translate has in place of the options of its job: a small object of JSON in its row.

    {"markup":"html","max_chars":20}

Knows: which options a document may have of its own. Does not know: where they come from, tables.
"""

import dataclasses
import functools
import json
from collections.abc import Mapping
from typing import Any

from jobs.tasks.option import Option, options_of
from jobs.tasks.translate import OWN_FIELDS, TranslateOptions

# By option: what names the field that says it of a document. `max_chars` of a unit, and `markup`, its file says.
FIELDS: Mapping[str, Option] = OWN_FIELDS
_EACH: Mapping[str, Any] = {"max_chars": 1, "prefix": "-"}  # that a batch may have several of
OWN_OPTIONS = frozenset({"markup", *FIELDS})


def own_json(values: Mapping[str, Any]) -> str | None:
    """The options of a document as its row has them; None: it has none. Equal ones are equal text."""
    return json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=False) if values else None


def with_more(own: str | None, values: Mapping[str, Any]) -> str | None:
    """The options of a document with others, which go first."""
    return own_json({**json.loads(own), **values} if own else values)


@functools.lru_cache(4096)
def shared_part(own: str | None) -> str | None:
    """What documents have in common that are computed together: their own options, but of the longest length and of the
    prefix only that there is one. Each keeps to its own (`own_value`)."""
    if own is None:
        return None
    values = json.loads(own)
    return own_json(values | {name: same for name, same in _EACH.items() if name in values})


def with_own(options: TranslateOptions, own: str | None) -> TranslateOptions:
    """The options of a document. Raises SpecError for a value that an option cannot be."""
    if own is None:
        return options
    known = own_options()
    return dataclasses.replace(options, **{name: known[name].read(value) for name, value in json.loads(own).items()})


def own_value(own: str | None, name: str) -> Any:
    """The value of an option that a document has of its own; None: it has not."""
    return None if own is None else json.loads(own).get(name)


@functools.cache
def own_options() -> Mapping[str, Option]:
    """The options that a document may have of its own, by name."""
    return {option.name: option for option in options_of(TranslateOptions) if option.name in OWN_OPTIONS}
