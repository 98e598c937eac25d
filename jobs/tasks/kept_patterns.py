"""
The patterns of `--keep`: what stays in a translation as it is in its source.

They are somebody's, and run on somebody's texts, so they run with a time limit, which `re` has not and `regex` has.
"""

import re
from typing import TYPE_CHECKING

from jobs.errors import SpecError

if TYPE_CHECKING:
    import regex

# What `re` takes as it is, and `regex` as an approximate match: a brace behind which no number is.
_LITERAL_BRACE = re.compile(r"(?<!\\)((?:\\\\)*)(?<!\\N)\{(?![0-9,])")


def kept_pattern(pattern: str) -> "regex.Pattern[str]":
    """A regular expression of Python, to be run with a time limit. Raises SpecError where it is none, or matches an
    empty text."""
    import regex  # here, since most jobs have no pattern: 30 ms

    try:
        matches_nothing = re.compile(pattern).match("")
        compiled = regex.compile(_LITERAL_BRACE.sub(r"\1\{", pattern), regex.VERSION0)
    except (re.error, regex.error, OverflowError, RecursionError) as error:
        raise SpecError(f"keep: {pattern!r} is not a regular expression ({error}): correct it") from None
    if matches_nothing:
        raise SpecError(f"keep: {pattern!r} matches an empty text, so it matches everywhere: make it match more")
    return compiled
