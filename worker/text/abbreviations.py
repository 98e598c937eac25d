"""
Full stops after abbreviations: corrections of a sentence splitter whose own lists lack them.

Knows: sentences as another splitter has cut them, abbreviations.toml. Does not know: documents.
"""

import functools
import re
import tomllib
from collections.abc import Iterator, Sequence
from importlib.resources import files
from typing import NamedTuple

_LONGEST = 40  # characters of a sentence's end and of the next one's beginning that are looked at
_NUMBER = re.compile(r"[\d№#]|[IVXLC]+\b")
_OPENING = "\"'«„“‘([¿¡"
_WORD_BEGINS = r"(?<![^\s(\[«„“‘\"'—–/-])"
_IN_WORD = r"[^\s.,;:!?()\[\]/]"  # vowel signs of Indian scripts too, which are not in \w
_WORD = re.compile(rf"[^\W\d_]{_IN_WORD}*")
_LAST_WORD = re.compile(rf"(\S*?)({_IN_WORD}+)\.$")


class _Lists(NamedTuple):
    """The abbreviations of a language as regular expressions; all but `ends` match at the end of a text."""

    inside: re.Pattern[str]
    number: re.Pattern[str]
    lower: re.Pattern[str]
    parts: tuple[tuple[re.Pattern[str], re.Pattern[str]], ...]  # halves of abbreviations that contain a space
    ends: re.Pattern[str]  # with the white space behind it


def mend_cuts(sentences: Sequence[str], code: str) -> list[str]:
    """Join sentences that were cut after an abbreviation, and cut after "etc." where a capital follows. The joined text
    stays the same. `code`: ISO 639-1; for an unknown language only titles count as abbreviations.

        "It fell approx. " "5 mm."   ->   "It fell approx. 5 mm."
        "Rain etc. Snow falls."      ->   "Rain etc. " "Snow falls."
    """
    lists = _lists(code)
    mended: list[str] = []
    for sentence in sentences:
        if mended and _continues(mended[-1], sentence, lists):
            mended[-1] += sentence
        else:
            mended.append(sentence)
    return [part for sentence in mended for part in _cut_behind(sentence, lists.ends)]


def _continues(left: str, right: str, lists: _Lists) -> bool:
    """Whether the second text goes on with the sentence of the first."""
    end = left[-_LONGEST:].rstrip()
    if not end.endswith("."):
        return False
    if end[-1] == left[-1]:
        return _is_inside_word(end, right)
    start = right[:_LONGEST].lstrip(_OPENING)
    return bool(
        lists.inside.search(end)
        or (_NUMBER.match(start) and lists.number.search(end))
        or (start[:1].islower() and lists.lower.search(end))
        or any(before.search(end) and behind.match(right) for before, behind in lists.parts)
    )


def _is_inside_word(left: str, right: str) -> bool:
    """Whether a full stop without a space behind it stands in a name or an abbreviation (`Node.JS`, `a.C.`),
    and not between two sentences (`He said so.Then he left.`)."""
    if right[:1] in "-,;":
        return True
    before, word = _LAST_WORD.search(left), _WORD.match(right)
    if before is None or word is None:
        return False
    behind = right[word.end() : word.end() + 1]
    if not word[0][0].isupper():  # a small letter, or a script without capitals
        return word[0][0].islower() or behind == "."
    is_address = any(mark in before[1] for mark in "./@")
    is_sentence = word[0].istitle() and len(before[2]) > 1 and behind in (" ", ",", "")
    return word[0].isascii() and before[2].isascii() and (is_address or not is_sentence)


def _cut_behind(sentence: str, ends: re.Pattern[str]) -> Iterator[str]:
    start = 0
    for match in ends.finditer(sentence):
        if sentence[match.end() : match.end() + 2].lstrip(_OPENING)[:1].isupper():
            yield sentence[start : match.end()]
            start = match.end()
    yield sentence[start:]


@functools.lru_cache(maxsize=64)
def _lists(code: str) -> _Lists:
    languages = _data()
    words = {kind: languages.get(code, {}).get(kind, "").split() for kind in ("inside", "number", "lower", "ends")}
    words["inside"] += languages["common"]["inside"].split()
    parts = [
        (name[: tilde + 1].rstrip("~"), name[tilde + 1 :].lstrip("~"))
        for name in words["inside"] + words["ends"]
        for tilde in (match.start() for match in re.finditer("~", name))
    ]
    return _Lists(
        inside=re.compile(f"{_any(words['inside'])}$"),
        number=re.compile(f"{_any(words['number'])}$"),
        lower=re.compile(f"{_any(words['lower'])}$"),
        parts=tuple((re.compile(f"{_any([before])}$"), re.compile(_spelt(behind))) for before, behind in parts),
        ends=re.compile(rf"{_any(words['ends'])}\s+"),
    )


@functools.cache
def _data() -> dict[str, dict[str, str]]:
    return tomllib.loads(files("worker.text").joinpath("abbreviations.toml").read_text(encoding="utf-8"))


def _any(names: Sequence[str]) -> str:
    """A regular expression for any of the names, at the beginning of a word; without names it matches nothing."""
    return rf"{_WORD_BEGINS}(?:{'|'.join(map(_spelt, names))})" if names else r"(?!)"


def _spelt(name: str) -> str:
    """A regular expression for a name, with a small or a capital first letter."""
    first = re.escape(name[0]) if name[0].isupper() else f"[{name[0]}{name[0].upper()}]"
    return first + re.escape(name[1:]).replace(r"\~", r"\s?").replace("~", r"\s?")
