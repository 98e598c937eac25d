"""
TBX, the format in which terminology is exchanged (ISO 30042), of version 2 and 3.

    <termEntry><langSet xml:lang="en"><tig><term>rain</term></tig></langSet>          2 (`martif`)
    <conceptEntry><langSec xml:lang="en"><termSec><term>rain</term></termSec></langSec>   3 (`tbx`)

Each term of an entry is a source for every other language of it; the first term of a language is the target, the
others of it are forms. Entities are refused where they are declared, as in TMX; nothing is loaded.
"""

from collections.abc import Iterator
from xml.parsers import expat

from jobs.terms.term import MAX_TERM_CHARACTERS, GlossaryError, Term

_ENTRIES = ("termEntry", "conceptEntry")
_LANGUAGES = ("langSet", "langSec")
_MAX_DEPTH = 64
_MAX_TERMS_OF_ENTRY = 200


def read_tbx(text: str) -> Iterator[tuple[Term, int]]:
    """The terms of a file, with their lines. Raises GlossaryError for one that is no TBX."""
    reader = _Reader()
    try:
        reader.parser.Parse(text.lstrip("\ufeff \t\r\n").encode(), True)
    except expat.ExpatError as error:
        raise GlossaryError(
            f"line {error.lineno}: it is not well-formed XML ({expat.ErrorString(error.code)})"
        ) from None
    for line, languages in reader.entries:
        for source_language, sources in languages.items():
            for target_language, targets in languages.items():
                if source_language != target_language:
                    for source in sources:
                        yield (
                            Term(
                                source,
                                tuple(dict.fromkeys(targets)),
                                source_is_cased=source.isupper() and sum(map(str.isalpha, source)) > 1,
                                source_language=source_language,
                                target_language=target_language,
                            ),
                            line,
                        )


class _Reader:
    """What expat's events say, one entry at a time."""

    def __init__(self) -> None:
        self.entries: list[tuple[int, dict[str, list[str]]]] = []  # line; terms by language
        self._depth = self._number = 0
        self._language = ""
        self._term: list[str] | None = None
        # The text is in UTF-8 here, whatever its declaration says.
        self.parser = parser = expat.ParserCreate("utf-8")
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.EntityDeclHandler = self._refuse_entity

    def _refuse_entity(self, name: str, *rest: object) -> None:
        raise GlossaryError(f"line {self.parser.CurrentLineNumber}: it declares the entity {name[:40]}; remove it")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        line = self.parser.CurrentLineNumber
        if not self._depth and name not in ("martif", "tbx"):
            raise GlossaryError(f"its root is <{name[:40]}>, and that of TBX is <martif> or <tbx>")
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise GlossaryError(f"line {line}: more than {_MAX_DEPTH} elements are nested")
        if name in _ENTRIES:
            self.entries.append((line, {}))
            self._number = 0
        elif name in _LANGUAGES:
            self._language = attributes.get("xml:lang") or attributes.get("lang") or ""
            if not self._language:
                raise GlossaryError(f"line {line}: <{name}> has no xml:lang")
        elif name == "term" and self.entries:
            self._number += 1
            if self._number > _MAX_TERMS_OF_ENTRY:
                raise GlossaryError(f"line {line}: its entry has more than {_MAX_TERMS_OF_ENTRY} terms")
            self._term = []

    def _text(self, text: str) -> None:
        if self._term is not None and len(self._term) <= MAX_TERM_CHARACTERS:
            self._term.extend(text[: MAX_TERM_CHARACTERS + 1])

    def _end(self, name: str) -> None:
        self._depth -= 1
        if name == "term" and self._term is not None:
            if text := " ".join("".join(self._term).split()):
                self.entries[-1][1].setdefault(self._language, []).append(text)
            self._term = None
