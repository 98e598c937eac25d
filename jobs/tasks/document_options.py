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
OWN_OPTIONS = frozenset({"markup", *FIELDS})


def own_json(values: Mapping[str, Any]) -> str | None:
    """The options of a document as its row has them; None: it has none. Equal ones are equal text."""
    return json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=False) if values else None


def with_more(own: str | None, values: Mapping[str, Any]) -> str | None:
    """The options of a document with others, which go first."""
    return own_json({**json.loads(own), **values} if own else values)


@functools.lru_cache(4096)
def shared_part(own: str | None) -> str | None:
    """What documents have in common that are computed together: their own options, but of the longest length only that
    there is one. Each is cut to its own (`max_chars_of`)."""
    if own is None or '"max_chars"' not in own:
        return own
    return own_json({**json.loads(own), "max_chars": 1})


def with_own(options: TranslateOptions, own: str | None) -> TranslateOptions:
    """The options of a document. Raises SpecError for a value that an option cannot be."""
    if own is None:
        return options
    known = own_options()
    return dataclasses.replace(options, **{name: known[name].read(value) for name, value in json.loads(own).items()})


@functools.lru_cache(4096)
def max_chars_of(own: str | None) -> int | None:
    """The longest translation of a document, in characters, where it has such a limit of its own."""
    found = json.loads(own).get("max_chars") if own is not None else None
    return None if found is None else int(found)


def has_own(own: str | None, name: str) -> bool:
    """Whether a document has this option of its own."""
    return own is not None and name in json.loads(own)


@functools.cache
def own_options() -> Mapping[str, Option]:
    """The options that a document may have of its own, by name."""
    return {option.name: option for option in options_of(TranslateOptions) if option.name in OWN_OPTIONS}
