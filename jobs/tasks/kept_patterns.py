"""The patterns of `--keep`: what stays in a translation as it is in its source."""

import re

from jobs.errors import SpecError


def kept_pattern(pattern: str) -> re.Pattern[str]:
    """A pattern as a regular expression. Raises SpecError where it is none, or matches an empty text."""
    try:
        compiled = re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise SpecError(f"keep: {pattern!r} is not a regular expression ({error}): correct it") from None
    if compiled.match(""):
        raise SpecError(f"keep: {pattern!r} matches an empty text, so it matches everywhere: make it match more")
    return compiled
