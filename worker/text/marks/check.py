"""Whether a translation still has what must not change: the marks of its source, and its numbers."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable

from jobs.outcome import Flag
from worker.text.marks.finding import find
from worker.text.marks.mark import Kind, MarkRules

_PLACEHOLDERS = MarkRules(placeholders=True)
_MAY_HOLD = re.compile(r"[{%@]|://|www\.")
_BLANKS = " \u00a0\u2009\u202f"
_SEPARATORS = ".,'’\u066b\u066c"
_NUMBER = re.compile(rf"\d++(?>(?:[{_SEPARATORS}]\d++|[{_BLANKS}]\d{{3}}(?!\d))*)")
_SHORT = re.compile(rf"\d++(?>(?:[{_SEPARATORS}]\d++)*)")


def compare(source: str, target: str, rules: MarkRules) -> tuple[Flag, ...]:
    """What changed from a text to its translation: PLACEHOLDER_LOST where a mark is not there as often, MARKUP_MOVED
    where pairs are no longer nested, NUMBER_CHANGED where a number is missing."""
    marks, found = find(source, rules), find(target, rules)
    kinds = (Kind.CHARACTER, Kind.BLANK, Kind.WRAP)
    wanted, there = (
        Counter(text[mark.start : mark.stop] for mark in some if mark.kind not in kinds)
        for text, some in ((source, marks), (target, found))
    )
    flags = set() if wanted == there else {Flag.PLACEHOLDER_LOST}
    if sum(mark.partner is not None for mark in found) < sum(mark.partner is not None for mark in marks):
        flags.add(Flag.MARKUP_MOVED)
    if lost_numbers(source, target):
        flags.add(Flag.NUMBER_CHANGED)
    return tuple(sorted(flags))


def lost_placeholders(source: str, target: str) -> bool:
    """Whether a placeholder, a URL or an e-mail address of the source is not in the target as often."""
    if _MAY_HOLD.search(source) is None:
        return False
    wanted = Counter(source[mark.start : mark.stop] for mark in find(source, _PLACEHOLDERS) if mark.kind == Kind.WORD)
    return any(target.count(text) < number for text, number in wanted.items())


def lost_numbers(source: str, target: str) -> bool:
    """Whether a number of the source is not in the target. Digits of all scripts are equal, and so are separators:
    1,234.5 is 1.234,5 and 1 234,5."""
    if not any(map(str.isdecimal, source)):
        return False
    wanted, there = ([_numbers(pattern.findall(text)) for pattern in (_NUMBER, _SHORT)] for text in (source, target))
    # A blank separates thousands or two numbers, and only one of the two texts may say which.
    return all(some - found for some in wanted for found in there)


def _numbers(found: Iterable[str]) -> Counter[str]:
    return Counter(
        "".join(str(unicodedata.digit(character)) for character in number if character.isdecimal()) for number in found
    )
