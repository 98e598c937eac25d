"""The longest translation that the comment on a text asks for, as in Android's sources: `[CHAR LIMIT=30]`.

NONE and UNLIMITED are no limit.
"""

import re

_LIMIT = re.compile(r"\bCHAR[ _-]?LIMIT\s*[=:]\s*([0-9]{1,9})(?![0-9])", re.ASCII)


def char_limit(comment: str | None) -> int | None:
    """Characters; None where the comment says none."""
    found = _LIMIT.search(comment or "")
    return None if found is None else int(found[1]) or None
