"""Units that are named by keys: of a key that stands there again, the later names have a number, `title (2)`.

Knows: names. Does not know: formats.
"""

import re
from dataclasses import dataclass, field

from jobs.files.translatable import Markup

_TAG = re.compile(r"</?[A-Za-z][^<>]*+>|&(?:\w{2,8}|#\d{1,7});")


@dataclass(slots=True)
class KeyNames:
    """The names that a file has so far."""

    _seen: dict[str, int] = field(default_factory=dict)

    def of(self, key: str) -> str:
        """A name that no other unit of the file has."""
        name = key
        while name in self._seen:
            self._seen[key] += 1
            name = f"{key} ({self._seen[key]})"
        self._seen[name] = 1
        return name


def markup_of(text: str) -> Markup:
    """HTML for a text with tags or entities."""
    return Markup.HTML if _TAG.search(text) else Markup.NONE
