r"""Apple's .strings: `"key" = "value";`, in UTF-8 or in UTF-16 with a byte order mark.

    /* Of a button */            the context of the unit `open`
    "open" = "Open \"%@\"";      'Open "%@"'

By the grammar of NeXT's property lists: /* */ and // are comments, words of letters, digits and _$:./- need no
quotation marks, \U1234 is a character.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from jobs.documents import quoted
from jobs.errors import CorpusError
from jobs.files.edits import edited_bytes
from jobs.files.keyed_units import KeyNames, markup_of
from jobs.files.markup.encodings import decoded, is_broken
from jobs.files.translatable import TranslatableFile, Unit
from jobs.files.words import has_word

_TOKEN = re.compile(
    r"(?P<blank>[\s\x00\ufeff]++)|/\*(?P<comment>.*?)\*/|//(?P<line>[^\r\n]*+)|"
    r"\"(?P<string>(?:[^\"\\]|\\.)*+)\"|'(?P<single>(?:[^'\\]|\\.)*+)'|(?P<word>[\w$:./-]++)|(?P<sign>[=;])",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\(?:[uU](?P<hex>[0-9A-Fa-f]{4})|(?P<octal>[0-7]{1,3})|(?P<sign>.))", re.DOTALL)
_READ_AS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "b": "\b", "v": "\v", "a": "\a"}
_WRITTEN = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}
_TO_WRITE = re.compile(r"[\\\"\n\t\r]")


class AppleStrings:
    """The format."""

    name = "strings"
    suffixes: tuple[str, ...] = (".strings",)

    def read(self, content: bytes, *, again: bool = False, target_language: str | None = None) -> TranslatableFile:
        """The values that have a word, by their keys. Raises CorpusError for a file that is compiled or broken."""
        if content.startswith((b"bplist", b"<?xml", b"\xef\xbb\xbf<?xml")):
            raise CorpusError("a property list, and no file of keys and values; convert it (plutil -p shows it)")
        text, encoding = decoded(content, "utf-8")
        if is_broken(text) or "\0" in text:
            raise CorpusError(
                f"bytes that are not {encoding}; save the file as UTF-8, or as UTF-16 with a byte order mark"
            )
        return StringsFile(text, encoding, list(_entries(text)))


FORMAT = AppleStrings()


@dataclass(frozen=True, slots=True)
class _Entry:
    """A value and where it stands, with its quotation marks."""

    unit: Unit
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class StringsFile:
    """A file that was read."""

    text: str
    encoding: str
    entries: Sequence[_Entry]
    units: Sequence[Unit] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "units", [entry.unit for entry in self.entries])

    def write(self, texts: Sequence[str | None], language: str | None = None) -> bytes:
        """The file with these values. (No place says the language but the folder of the file.) Raises SpecError for
        half of a character."""
        edits = [
            (entry.start, entry.stop, f'"{_TO_WRITE.sub(_escaped, text)}"')
            for entry, text in zip(self.entries, texts, strict=True)
            if text is not None and text != entry.unit.text
        ]
        return edited_bytes(self.text, edits, self.encoding)


def _entries(text: str) -> Iterator[_Entry]:
    names = KeyNames()
    statement: list[re.Match[str]] = []
    about: list[str] = []
    for token in _tokens(text):
        if token.lastgroup in ("comment", "line"):
            about += [] if statement else [" ".join(token[token.lastgroup].split())]
        elif token[0] != ";":
            statement.append(token)
            shape = "".join("=" if each[0] == "=" else "x" for each in statement)
            if shape not in ("x", "x=", "x=x"):
                what = "a ; is missing in front of {}" if shape == "x=xx" else "{} is not expected here"
                _refuse(text, token.start(), what.format(quoted(token[0], 30)))
        else:
            if not statement or statement[-1][0] == "=":
                _refuse(text, token.start(), "a value is missing in front of ;")
            key, value = _meant(statement[0]), statement[-1]  # of "key"; the key is the value
            if len(statement) == 3 and has_word(meant := _meant(value)):
                context = "\n".join(filter(None, about)) or None
                unit = Unit(name=names.of(key), text=meant, markup=markup_of(meant), context=context)
                yield _Entry(unit, *value.span())
            statement, about = [], []
    if statement:
        _refuse(text, statement[-1].end(), "a ; is missing at the end")


def _tokens(text: str) -> Iterator[re.Match[str]]:
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            _refuse(text, at, f"{quoted(text[at : at + 30], 30)} is not expected here, or never closes")
        if found.lastgroup != "blank":
            yield found
        at = found.end()


def _meant(token: re.Match[str]) -> str:
    inner = token[token.lastgroup or 0]
    if token.lastgroup == "word" or "\\" not in inner:
        return inner
    text = _ESCAPE.sub(_sign, inner)
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _sign(found: re.Match[str]) -> str:
    if found["hex"]:
        return chr(int(found["hex"], 16))
    return chr(int(found["octal"], 8)) if found["octal"] else _READ_AS.get(found["sign"], found["sign"])


def _escaped(found: re.Match[str]) -> str:
    return _WRITTEN.get(found[0], f"\\{found[0]}")


def _refuse(text: str, at: int, what: str) -> NoReturn:
    raise CorpusError(f"line {text.count(chr(10), 0, at) + 1}: {what}")
