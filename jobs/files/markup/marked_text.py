"""The text of a paragraph with its marks as numbers, and such a text in its parts.

    One <1>bold</1> word<2/>      1 is a format, 2 a footnote

Knows: numbers. Does not know: what they stand for.
"""

import re
from collections.abc import Iterator
from enum import Enum, auto
from html import unescape

from jobs.errors import SpecError
from jobs.files.markup.xml_tree import fault_of
from jobs.files.words import has_word

_NUMBERED = re.compile(r"<(/?)(\d+)(/?)>")
_TAG = re.compile(r"<[^>]*+>")


class Part(Enum):
    TEXT = auto()
    OPEN = auto()
    CLOSE = auto()
    MARK = auto()


def has_words(text: str) -> bool:
    """Whether there is something to translate beside tags."""
    return has_word(unescape(_TAG.sub("", text)))


def parts_of(text: str, numbers: int, name: str) -> Iterator[tuple[Part, int, str]]:
    """Each part of a text, with the number of its mark or its characters as they stand in XML. Raises SpecError for a
    number above `numbers` and for what is no XML; `name`: of the unit."""
    at = 0
    for found in _NUMBERED.finditer(text):
        if found.start() > at:
            yield Part.TEXT, 0, _characters(text[at : found.start()], name)
        at, number = found.end(), int(found[2])
        if not 1 <= number <= numbers:
            raise SpecError(f"unit {name}: its source has no {found[0]}")
        yield Part.CLOSE if found[1] else Part.MARK if found[3] else Part.OPEN, number, ""
    if at < len(text):
        yield Part.TEXT, 0, _characters(text[at:], name)


def _characters(text: str, name: str) -> str:
    fault = "a tag" if "<" in text else fault_of(text)
    if fault is not None:
        raise SpecError(f"unit {name}: the text is no XML ({fault}); write & as &amp; and < as &lt;")
    return text
