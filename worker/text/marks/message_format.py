"""
The frame of plurals and selections in ICU's MessageFormat, around the branches that are translated.

    You have {n, plural, =0 {none} other {# files}}.
             ~~~~~~~~~~~~~~~~~    ~~~~~~~~       ~~     these are marks that separate sentences, and # is a word

https://unicode-org.github.io/icu/userguide/format_parse/messages/
"""

import re

from worker.text.marks.mark import Kind, Mark

_BEGINS = re.compile(
    r"\{\s{0,9}\w{1,60}\s{0,9},\s{0,9}(plural|select|selectordinal)\s{0,9},(?:\s{0,9}offset:[0-9]{1,9})?"
)
_BRANCH = re.compile(r"\s{0,40}(?:=[0-9]{1,9}|[\w-]{1,60})\s{0,9}\{")
_END = re.compile(r"\s{0,40}\}")
_SIGN = re.compile(r"'[{}#|][^']{0,200}'|[{}#]")  # quoted, it is text
_BRANCH_TEXT, _BRACE = "branch", "brace"


def message_marks(text: str) -> list[Mark]:
    """The frames of all messages of a text and the # of their plurals, in order; none of a message that is not closed.
    Takes O(length)."""
    found: list[Mark] = []
    at = 0
    while match := _BEGINS.search(text, at):
        marks, at = _message(text, match)
        found += marks
    return found


def _message(text: str, begins: re.Match[str]) -> tuple[list[Mark], int]:
    """The marks of the message that begins here, and where to look for the next one."""
    marks: list[Mark] = []
    stack, kinds = [begins[1]], [begins[1]]  # what is open; of the messages among it the kinds
    start, at = begins.span()  # of the frame that is open
    while stack:
        if stack[-1] not in (_BRANCH_TEXT, _BRACE):
            if branch := _BRANCH.match(text, at):
                stack.append(_BRANCH_TEXT)
                at = branch.end()
            elif end := _END.match(text, at):
                stack.pop()
                kinds.pop()
                at = end.end()
            else:
                return [], at
            if not stack or stack[-1] == _BRANCH_TEXT:
                marks.append(Mark(start, at, Kind.BREAK))
            continue
        sign = _SIGN.search(text, at)
        if sign is None:
            return [], len(text)
        at = sign.end()
        if sign[0] == "#":
            if kinds[-1] != "select":
                marks.append(Mark(*sign.span(), Kind.WORD))
        elif sign[0] == "{":
            if inner := _BEGINS.match(text, sign.start()):
                stack.append(inner[1])
                kinds.append(inner[1])
                start, at = inner.span()
            else:
                stack.append(_BRACE)
        elif sign[0] == "}" and stack.pop() == _BRANCH_TEXT:
            start = sign.start()
    return marks, at
