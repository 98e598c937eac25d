r"""Java's .properties: `key = value`, lines of `#` and `!` are comments, a backslash at the end of a line continues it.

By the documentation of java.util.Properties.load. Bytes that are UTF-8 are read as such (ResourceBundle since Java 9,
JEP 226), others as ISO-8859-1. A value that changes is written on one line; what is not ASCII as \uXXXX, which every
Java reads, unless a value has such characters in UTF-8 already.

    # about the greeting          the context of the unit
    greeting = Hello, \           the unit `greeting`: "Hello, world"
               world
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jobs.documents import quoted
from jobs.errors import CorpusError
from jobs.files.keyed_units import KeyNames
from jobs.files.translatable import TranslatableFile, Unit
from jobs.files.words import has_word

BOM = "\ufeff"
_BLANKS = re.compile(r"[ \t\f]*+")
_LINE_END = re.compile(r"\r\n|\r|\n")
_COMMENT = re.compile(r"[#!][^\r\n]*+")
# A backslash takes the next character with it, be it the end of a line.
_LOGICAL_LINE = re.compile(r"(?:[^\\\r\n]|\\(?:\r\n|.|\Z))*+", re.DOTALL)
_KEY = re.compile(r"(?:[^\\=: \t\f]|\\(?:\r\n[ \t\f]*+|[\r\n][ \t\f]*+|.|\Z))*+", re.DOTALL)
_SEPARATOR = re.compile(r"(?>(?:[ \t\f]|\\(?:\r\n|\r|\n))*)[=:]?+(?>(?:[ \t\f]|\\(?:\r\n|\r|\n))*)")
_ESCAPE = re.compile(r"\\(?:(?P<end>\r\n|\r|\n)[ \t\f]*+|u(?P<hex>[0-9A-Fa-f]{4})|(?P<other>.)|\Z)", re.DOTALL)
_READ_AS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_WRITTEN = {"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r", "\f": r"\f"}
_TO_WRITE = re.compile(r"[\\\x00-\x1f\x7f-\x9f\ud800-\udfff]|^ ")
_TO_WRITE_IN_ASCII = re.compile(r"[\\\x00-\x1f\x7f-\U0010ffff]|^ ")


class Properties:
    """The format."""

    name = "properties"
    suffixes: tuple[str, ...] = (".properties",)

    def read(self, content: bytes, *, again: bool = False, target_language: str | None = None) -> TranslatableFile:
        """The values that have a word; names are the keys. Raises CorpusError for an escape that Java refuses."""
        return PropertiesFile.parse(content)


FORMAT = Properties()


@dataclass(frozen=True, slots=True)
class _Entry:
    """A key and where its value stands in the text of the file."""

    unit: Unit
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class PropertiesFile:
    """A file that was read."""

    text: str
    encoding: str
    entries: Sequence[_Entry]

    @classmethod
    def parse(cls, content: bytes) -> "PropertiesFile":
        try:
            text, encoding = content.decode(), "utf-8"
        except UnicodeDecodeError:
            text, encoding = content.decode("latin-1"), "latin-1"
        return cls(text, encoding, list(_entries(text)))

    @property
    def units(self) -> Sequence[Unit]:
        return [entry.unit for entry in self.entries]

    def write(self, texts: Sequence[str | None], language: str | None = None) -> bytes:
        """The file with these values. (No place says the language but the name of the file.)"""
        signs = _TO_WRITE if self.encoding == "utf-8" and self._has_such_values else _TO_WRITE_IN_ASCII
        pieces, written = [], 0
        for entry, text in zip(self.entries, texts, strict=True):
            if text is not None and text != entry.unit.text:
                pieces += [self.text[written : entry.start], signs.sub(_escaped, text)]
                written = entry.stop
        return "".join([*pieces, self.text[written:]]).encode(self.encoding)

    @property
    def _has_such_values(self) -> bool:
        return not all(self.text[entry.start : entry.stop].isascii() for entry in self.entries)


def _entries(text: str) -> Iterator[_Entry]:
    """The values that have a word, in their order."""
    names = KeyNames()
    comment: list[str] = []
    at = len(BOM) if text.startswith(BOM) else 0
    while at < len(text):
        start = _end(_BLANKS, text, at)
        if (found := _COMMENT.match(text, start)) is not None:
            comment.append(found[0].lstrip("#!").strip())
            stop = found.end()
        else:
            stop = _end(_LOGICAL_LINE, text, start)
            if stop > start and (entry := _entry(text, start, stop, comment, names)):
                yield entry
            comment = []
        at = _end(_LINE_END, text, stop)


def _entry(text: str, start: int, stop: int, comment: Sequence[str], names: KeyNames) -> _Entry | None:
    end_of_key = _end(_KEY, text, start, stop)
    begin = _end(_SEPARATOR, text, end_of_key, stop)
    key = _unescaped(text, start, end_of_key)
    value = _unescaped(text, begin, stop)
    if not has_word(value):
        return None
    about = "\n".join(filter(None, comment)) or None
    return _Entry(Unit(name=names.of(key), text=value, context=about), begin, stop)


def _end(pattern: re.Pattern[str], text: str, start: int, stop: int | None = None) -> int:
    """Where the match ends that begins at `start`; there, where there is none."""
    found = pattern.match(text, start, len(text) if stop is None else stop)
    return start if found is None else found.end()


def _unescaped(text: str, start: int, stop: int) -> str:
    """What a key or a value means. Two escapes of a pair of surrogates are one character."""
    if text.find("\\", start, stop) < 0:
        return text[start:stop]

    def character(found: re.Match[str]) -> str:
        if found["hex"]:
            return chr(int(found["hex"], 16))
        if found["other"] == "u":
            where = text.count("\n", 0, start) + 1
            raise CorpusError(
                f"line {where}: {quoted(text[start:stop], 30)} has \\u without four hexadecimal digits behind it; "
                "write \\u00e9, or two backslashes"
            )
        return _READ_AS.get(found["other"] or "", found["other"] or "")

    value = _ESCAPE.sub(character, text[start:stop])
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def _escaped(found: re.Match[str]) -> str:
    sign = found[0]
    if sign == " ":  # a blank in front of a value would be none of it
        return "\\ "
    units = sign.encode("utf-16-be", "surrogatepass")
    as_hex = "".join(f"\\u{units[at] << 8 | units[at + 1]:04x}" for at in range(0, len(units), 2))
    return _WRITTEN.get(sign, as_hex)
