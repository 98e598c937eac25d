"""A translation laid out over cues and lines.

Knows: words, lengths. Does not know: formats.
"""

import re
import unicodedata
from collections.abc import Sequence

LINE = 42  # characters of a line that viewers are given (the style guides of Netflix and the BBC's 37 for teletext)

_TAG = re.compile(r"<[^<>]*>")
_WORD = re.compile(r"(?:<[^<>]*>|[^\s<]|<)+")
_NAMED_TAG = re.compile(r"<(/?)([A-Za-z][\w]*)[^<>]*?(/?)>")


def visible(text: str) -> int:
    """How many characters of a text are seen."""
    return len(_TAG.sub("", text)) if "<" in text else len(text)


def over_cues(text: str, lengths: Sequence[int]) -> list[str]:
    """A text in as many parts as there are lengths, in their proportion, cut at words; a tag that is open where it is
    cut is closed there and opened again. With fewer words than parts the last parts are empty."""
    if len(lengths) == 1:
        return [text]
    words = _words(text)
    sizes = [visible(word) for word in words]
    total, whole = sum(sizes) or 1, sum(lengths) or 1
    parts: list[list[str]] = [[] for _ in lengths]
    at, cue, bound = 0, 0, lengths[0] / whole
    for index, (word, size) in enumerate(zip(words, sizes, strict=True)):
        left, later = len(words) - index, len(lengths) - 1 - cue
        if later and parts[cue] and ((at + size / 2) / total > bound or left <= later):
            cue += 1
            bound += lengths[cue] / whole
        parts[cue].append(word)
        at += size
    return _closed(["".join(part).strip() for part in parts])


def in_lines(text: str, width: int) -> list[str]:
    """A text in lines of at most `width` characters, of about the same length; a longer word stands by itself."""
    length = visible(text)
    if length <= width:
        return [text]
    num_lines = -(-length // width)
    goal = max(min(width, -(-length // num_lines) + 4), 1)
    lines: list[str] = []
    line, used = "", 0
    for word in _words(text):
        size = visible(word.rstrip())
        if line and used + size > (goal if len(lines) < num_lines - 1 else width):
            lines.append(line.strip())
            line, used = "", 0
        line, used = line + word, used + visible(word)
    return [*lines, line.strip()]


def _words(text: str) -> list[str]:
    """With the blanks behind each. Signs of Chinese, Japanese and Korean are words of their own where no blanks are."""
    words: list[str] = []
    at = 0
    for found in _WORD.finditer(text):
        if words:
            words[-1] += text[at : found.start()]
        at = found.end()
        word = found[0]
        if "<" not in word and any(unicodedata.east_asian_width(sign) == "W" for sign in word):
            words += word
        else:
            words.append(word)
    return words


def _closed(parts: Sequence[str]) -> list[str]:
    closed, still_open = [], list[tuple[str, str]]()
    for part in parts:
        head = "".join(tag for _, tag in still_open) if part else ""
        if part:
            for found in _NAMED_TAG.finditer(part):
                if found[1]:
                    if still_open and still_open[-1][0] == found[2]:
                        still_open.pop()
                elif not found[3] and len(still_open) < 20:
                    still_open.append((found[2], found[0]))
        tail = "".join(f"</{name}>" for name, _ in reversed(still_open)) if part else ""
        closed.append(head + part + tail)
    return closed
