"""
TMX 1.4b, the format in which translation memories are exchanged (GALA/LISA OSCAR, 2005).

    <tmx version="1.4"><header srclang="en" .../><body>
      <tu><tuv xml:lang="en"><seg>Rain.</seg></tuv><tuv xml:lang="de"><seg>Regen.</seg></tuv></tu>

Inline codes (bpt, ept, ph, it, hi, ut) hold the markup of the original text, so their characters are part of the
sentence; `sub` is a text of its own within a code (a footnote), which is left out.

Read by expat as a stream. Entities are refused where they are declared, so none can expand or name a file; a DOCTYPE
without them is read past, and nothing is loaded.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import BinaryIO
from xml.parsers import expat
from xml.sax.saxutils import escape, quoteattr

from jobs.units.translation_unit import (
    MAX_UNIT_CHARACTERS,
    BadUnit,
    TranslationUnit,
    UnitFileError,
    UnitLanguages,
    checked_unit,
)

_CHUNK = 1 << 16  # bytes
_MAX_DEPTH = 64
_MAX_VARIANTS = 1_000  # languages of a unit
_LANG = "xml:lang"
# What no XML 1.0 document can hold, whatever is written for it.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def read_tmx(stream: BinaryIO, languages: UnitLanguages) -> Iterator[TranslationUnit | BadUnit]:
    """The units of a file: of each `tu` one for each language beside its source language. `languages`: those alone,
    where they are given; the source's also where the file does not name it (`*all*`).

    Raises UnitFileError, which says the line, for a file that is not well-formed, that declares an entity, or that is
    no TMX.
    """
    reader = _Reader(languages)
    try:
        while chunk := stream.read(_CHUNK):
            reader.parser.Parse(chunk, False)
            yield from reader.taken()
        reader.parser.Parse(b"", True)
    except expat.ExpatError as error:
        raise UnitFileError(
            f"line {error.lineno}: it is not well-formed XML ({expat.ErrorString(error.code)})"
        ) from None
    yield from reader.taken()


@dataclass(slots=True)
class _Variant:
    """A `tuv` as it is read."""

    language: str | None
    parts: list[str] = field(default_factory=list)
    length: int = 0


class _Reader:
    """What expat's events say, one unit at a time."""

    def __init__(self, languages: UnitLanguages) -> None:
        self._languages = languages
        self._source: str | None = None  # of the header
        self._unit_source: str | None = None
        self._variants: list[_Variant] = []
        self._line = 0  # where the unit begins
        self._path: list[str] = []
        self._skipped = 0  # open `sub` elements
        self._found: list[TranslationUnit | BadUnit] = []
        self.parser = parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.EntityDeclHandler = self._refuse_entity

    def taken(self) -> list[TranslationUnit | BadUnit]:
        """What was found since the last call."""
        found, self._found = self._found, []
        return found

    def _refuse_entity(self, name: str, *rest: object) -> None:
        raise UnitFileError(f"line {self.parser.CurrentLineNumber}: it declares the entity {name[:40]}; remove it")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if not self._path and name != "tmx":
            raise UnitFileError(f"its root is <{name[:40]}>, and that of TMX is <tmx>")
        if len(self._path) >= _MAX_DEPTH:
            raise UnitFileError(f"line {self.parser.CurrentLineNumber}: more than {_MAX_DEPTH} elements are nested")
        self._path.append(name)
        match name:
            case "header":
                self._source = _source_language(attributes.get("srclang"))
            case "tu":
                self._unit_source = _source_language(attributes.get("srclang")) or self._source
                self._variants, self._line = [], self.parser.CurrentLineNumber
            case "tuv" if len(self._variants) < _MAX_VARIANTS:
                self._variants.append(_Variant(attributes.get(_LANG) or attributes.get("lang")))
            case "sub":
                self._skipped += 1

    def _text(self, text: str) -> None:
        if not self._skipped and "seg" in self._path and self._variants:
            variant = self._variants[-1]
            variant.length += len(text)
            if variant.length <= MAX_UNIT_CHARACTERS + 1:  # one that is too long is rejected, and not kept in memory
                variant.parts.append(text[: MAX_UNIT_CHARACTERS + 1])

    def _end(self, name: str) -> None:
        self._path.pop()
        if name == "sub":
            self._skipped -= 1
        elif name == "tu":
            self._found += self._units()
            self._variants = []

    def _units(self) -> Iterable[TranslationUnit | BadUnit]:
        wanted = self._languages
        source_code = wanted.source or self._unit_source
        if source_code is None:
            return [BadUnit(self._line, "the file does not say its source language: give --source-language")]
        if any(variant.language is None for variant in self._variants):
            return [BadUnit(self._line, "a <tuv> of it has no xml:lang")]
        sources = [variant for variant in self._variants if _is_of(variant, source_code)]
        if not sources:
            return [BadUnit(self._line, f"it has no <tuv> of its source language, {source_code}")]
        source = sources[0]
        targets = [
            variant
            for variant in self._variants
            if variant is not source and (wanted.target is None or _is_of(variant, wanted.target))
        ]
        if not targets:
            return [BadUnit(self._line, f"it has no <tuv> of {wanted.target or 'another language'}")]
        return [
            checked_unit(
                TranslationUnit(_joined(source), _joined(target), source.language or "", target.language or ""),
                self._line,
            )
            for target in targets
        ]


def _source_language(code: str | None) -> str | None:
    return None if code in (None, "", "*all*") else code


def _joined(variant: _Variant) -> str:
    # One that is too long keeps the character that makes it so.
    return "".join(variant.parts) if variant.length <= MAX_UNIT_CHARACTERS else "x" * (MAX_UNIT_CHARACTERS + 1)


def _is_of(variant: _Variant, code: str) -> bool:
    """Whether a variant is of the language: `en` is also that of a unit in en-GB, and the other way round."""
    given, wanted = ((variant.language or "").replace("_", "-").lower().split("-"), code.replace("_", "-").lower())
    asked = wanted.split("-")
    return given[: len(asked)] == asked or asked[: len(given)] == given


def write_tmx(units: Iterable[TranslationUnit], source_language: str | None, write: Callable[[bytes], object]) -> int:
    """Write the units as a file in UTF-8, and return how many. Characters that XML cannot hold are left out.
    `source_language`: of all units; None: they have several."""
    header = (
        '<?xml version="1.0" encoding="UTF-8"?>\n<tmx version="1.4">\n'
        '<header creationtool="kvjobs" creationtoolversion="1" segtype="sentence" o-tmf="kvjobs" adminlang="en" '
        f'srclang={_attribute(source_language or "*all*")} datatype="plaintext"/>\n<body>\n'
    )
    write(header.encode())
    number = 0
    for unit in units:
        number += 1
        lines = (
            f"<tu srclang={_attribute(unit.source_language)}>\n",
            f"<tuv xml:lang={_attribute(unit.source_language)}><seg>{_content(unit.source)}</seg></tuv>\n",
            f"<tuv xml:lang={_attribute(unit.target_language)}><seg>{_content(unit.target)}</seg></tuv>\n</tu>\n",
        )
        write("".join(lines).encode())
    write(b"</body>\n</tmx>\n")
    return number


def _content(text: str) -> str:
    # A carriage return that is written as it is would be read as a line feed (XML 1.0, 2.11).
    return escape(_NOT_XML.sub("", text), {"\r": "&#13;"})


def _attribute(text: str) -> str:
    return quoteattr(_NOT_XML.sub("", text))
