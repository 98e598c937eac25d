r"""The strings of a .po file: what one means, and how one is written, wrapped as gettext's tools wrap.

Knows: escapes, columns. Does not know: entries.
"""

import re
import unicodedata
from collections.abc import Iterator

WIDTH = 79  # columns of a line: the page width of msgmerge and xgettext

_ESCAPE = re.compile(r"\\(?:([0-7]{1,3})|x([0-9A-Fa-f]{1,2})|(.))", re.DOTALL)
_READ_AS = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "a": "\a", "\\": "\\", '"': '"'}
_WRITTEN = {meant: f"\\{sign}" for sign, meant in _READ_AS.items()}
_TO_WRITE = re.compile(r'[\\"\x00-\x1f\x7f]')
_LINE = re.compile(r"[^\n]*+\n|[^\n]++")
_WORD = re.compile(r"[^ \t\n]*+[ \t\n]*+")
_MANY_WIDE = re.compile(r"[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef]")


def unescaped(inner: str) -> str:
    """What stands between two quotation marks, as it is meant. An escape that C lacks stays as it is."""
    return _ESCAPE.sub(_meant, inner) if "\\" in inner else inner


def escaped(text: str) -> str:
    """What stands between two quotation marks for a text."""
    return _TO_WRITE.sub(lambda found: _WRITTEN.get(found[0]) or f"\\{ord(found[0]):03o}", text)


def written(keyword: str, text: str, line_end: str) -> str:
    """A keyword with a text: on one line where it fits, else from the next line on, a line of the text a line."""
    one = f'{keyword} "{escaped(text)}"'
    if "\n" not in text[:-1] and _columns(one) <= WIDTH:
        return one
    lines = (f'"{escaped(line)}"' for part in _LINE.findall(text) for line in _wrapped(part))
    return line_end.join([f'{keyword} ""', *lines])


def _wrapped(text: str) -> Iterator[str]:
    """A text in pieces that fit between quotation marks; only a word that is longer stands by itself."""
    line, width = "", 0
    for word in _pieces(text):
        columns = _columns(escaped(word))
        if line and width + columns > WIDTH - 2:
            yield line
            line, width = "", 0
        line, width = line + word, width + columns
    yield line


def _pieces(text: str) -> Iterator[str]:
    """Where a line may end: behind blanks; in Chinese, Japanese and Korean between signs."""
    for word in _WORD.findall(text):
        if _MANY_WIDE.search(word):
            yield from word
        elif word:
            yield word


def _columns(text: str) -> int:
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(sign) else 2 if unicodedata.east_asian_width(sign) in "WF" else 1 for sign in text
    )


def _meant(found: re.Match[str]) -> str:
    if found[1] or found[2]:
        return chr(int(found[1], 8) & 0xFF if found[1] else int(found[2], 16))
    return _READ_AS.get(found[3], found[0])
