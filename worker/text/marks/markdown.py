"""
The signs of Markdown in a text: emphasis, links, code, and what begins a line.

Follows CommonMark 0.31.2 where a sign has a partner on the same text; a sign without one is text.
"""

import re
from collections.abc import Sequence

from worker.text.marks.elements import Ends
from worker.text.marks.mark import Kind, Mark

CODE = r"(?P<code>`++)"
AUTOLINK = r"(?P<autolink><(?:[A-Za-z][A-Za-z0-9+.-]{1,31}:|[\w.+-]{1,64}@)[^\s<>]*+>)"
_TARGET = (
    r"\]\((?:[^()\s\\<>]|\\.|\([^()\s]{0,200}\)){0,2000}(?:[ \t]{1,9}\"[^\"\n]{0,500}\")?\)|\]\[[^\[\]\n]{0,200}\]"
)
SIGNS = "|".join(
    [
        r"(?P<line>^[ ]{0,3}(?>(?:(?:\#{1,6}|>|[-*+]|[0-9]{1,9}[.)])[ \t]++)+))",
        r"(?P<escaped>\\[!-/:-@\[-`{-~])",
        rf"(?P<target>{_TARGET})",
        r"(?P<bracket>!?\[|\])",
        r"(?P<run>\*++|_++|~~)",
    ]
)
SIGN_CHARACTERS = frozenset("!#()*+-.[\\]_`{|}~")  # by themselves they may be signs; &, < and > are written as entities
_LINK = "["


def mark(found: re.Match[str], ends: Ends) -> Mark | None:
    """What a match of CODE or SIGNS may be; `without_text` decides. None: text."""
    start, stop = found.span()
    match found.lastgroup:
        case "code":
            end = ends.behind(found[0], stop)
            if end is not None:
                return Mark(start, end, Kind.ALONE if "\n" in found.string[start:end] else Kind.WORD)
        case "line":
            return Mark(start, stop, Kind.ALONE)
        case "target":
            return Mark(start, stop, Kind.CLOSE, _LINK)
        case "bracket":
            return Mark(start, stop, Kind.CLOSE if found[0] == "]" else Kind.OPEN, _LINK)
        case "run":
            return _emphasis(found.string, start, stop, found[0])
    return None


def _emphasis(text: str, start: int, stop: int, run: str) -> Mark | None:
    """A run that a word follows opens, one that follows a word closes. An underscore within a word is one of it."""
    before, behind = text[start - 1 : start], text[stop : stop + 1]
    opens = bool(behind.strip()) and not (before.isalnum() and (run[0] == "_" or not behind.isalnum()))
    closes = bool(before.strip()) and not (behind.isalnum() and run[0] == "_")
    if len(run) > 3 or not (opens or closes):
        return None
    return Mark(start, stop, Kind.OPEN if opens and not closes else Kind.CLOSE, run)


def without_text(text: str, marks: Sequence[Mark]) -> list[Mark]:
    """The marks without brackets and runs that have no partner, which are text."""
    opened: list[int] = []
    kept = [True] * len(marks)
    of_markdown = [mark.name[:1] in {_LINK, "*", "_", "~"} for mark in marks]
    last: dict[str, list[int]] = {}
    for index, mark in enumerate(marks):
        if not of_markdown[index]:
            continue
        if mark.kind == Kind.OPEN:
            opened.append(index)
            last.setdefault(mark.name, []).append(index)
            continue
        while last.get(mark.name) and not kept[last[mark.name][-1]]:
            last[mark.name].pop()
        if not last.get(mark.name):
            kept[index] = False
            continue
        while (top := opened.pop()) != last[mark.name][-1]:
            kept[top] = False
        last[mark.name].pop()
        if mark.stop - mark.start == 1 and mark.name == _LINK:  # brackets that are no link
            kept[top] = kept[index] = False
    for index in opened:
        kept[index] = False
    return [mark for index, mark in enumerate(marks) if kept[index]]
