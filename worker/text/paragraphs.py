"""
Lines that were wrapped at a width, joined to the paragraphs that they were.

    "It will rain in the\\nnorth. Winds ease.\\n\\n- Arden\\n- Orford\\n"

    It will rain in the north. Winds ease.        a line that follows another goes on with it,
    (empty)                                       but not behind an empty line,
    - Arden                                       nor with the mark of a list, a quotation or a heading, or indented
    - Orford

Knows: lines, and which scripts have spaces. Does not know: sentences.
"""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_BEGINS = re.compile(r"\s|[>#|]|(?:[-*+•·–—]|\d{1,3}[.)]|[A-Za-z][.)])\s")
_WITHOUT_SPACES = re.compile(
    "[\u0e00-\u109f\u1780-\u17ff\u19e0-\u19ff\uff61-\uff9f]"
)  # Thai to Burmese, Khmer, half-width


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Some lines of a document as one text."""

    read: str  # each line break within, and the white space around it, is a space or nothing
    _lines: tuple[tuple[int, int], ...]  # of each line: where its text begins in `read`, and in `_written`
    _written: str

    def written_between(self, start: int, stop: int) -> str:
        """What is written between two positions of `read`. Between a line's end and the next one's beginning, the line
        break and white space belong to the part before."""
        return self._written[self._at(start) : self._at(stop)]

    def _at(self, position: int) -> int:
        if position >= len(self.read):
            return len(self._written)
        read, written = self._lines[bisect_right(self._lines, (position, len(self._written))) - 1]
        return written + position - read


def paragraphs(text: str) -> Iterator[Paragraph]:
    """The paragraphs of a text, empty lines too; as they are written they are the text."""
    lines: list[str] = []
    for line in text.splitlines(keepends=True):
        if lines and (not line.strip() or not lines[-1].strip() or _BEGINS.match(line)):
            yield _joined(lines)
            lines = []
        lines.append(line)
    if lines:
        yield _joined(lines)


def _joined(lines: Sequence[str]) -> Paragraph:
    read, starts, written = "", [], 0
    parts: list[str] = []
    length = 0
    for number, line in enumerate(lines):
        is_last = number + 1 == len(lines)
        part = line if is_last else line.rstrip()
        if parts and (joint := _joint(read, part)):
            parts.append(joint)
            length += len(joint)
        starts.append((length, written))
        parts.append(part)
        read = part
        length += len(part)
        written += len(line)
    return Paragraph("".join(parts), tuple(starts), "".join(lines))


def _joint(left: str, right: str) -> str:
    """What stands between two lines that are one text: a space; nothing in Chinese, Japanese, Thai and other scripts
    without spaces, and behind a hyphen."""
    if re.search(r"\w-$", left) or _has_no_spaces(left[-1:]) or _has_no_spaces(right[:1]):
        return ""
    return " "


def _has_no_spaces(character: str) -> bool:
    """Whether it is a character or a mark of a script without spaces. (Korean is as wide, and has spaces.)"""
    if not character:
        return False
    if _WITHOUT_SPACES.match(character):
        return True
    return unicodedata.east_asian_width(character) in "WF" and not unicodedata.name(character, "").startswith("HANGUL")
