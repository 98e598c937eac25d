"""YAML of texts as translatable files: of Rails, Symfony, Hugo and others, flat or nested.

    menu:
      # of a button        the context of the unit `menu.open`
      open: Open           plain; a translation that would be no text so gets quotation marks: `open: "Auf: zu"`
      about: |             a block stays one
        Of this program.

A file of Rails has one key in its root, a language (`en:`), which becomes that of the translation.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from jobs.errors import CorpusError
from jobs.files.edits import edited_bytes
from jobs.files.keyed_units import KeyNames, markup_of
from jobs.files.markup.encodings import decoded, is_broken
from jobs.files.resources.yaml_scalars import (
    YamlKey,
    YamlScalar,
    double_quoted,
    is_string,
    line_end_of,
    scalars_of,
    written,
)
from jobs.files.translatable import TranslatableFile, Unit
from jobs.files.words import has_word

_FURTHEST = 4000  # characters from a key back to the first line of its comment
_COMMENT = re.compile(r"[ \t]*+#+[ \t]*+(.*?)[ \t\r]*")
# ISO 639-1. (A key of three letters or of two others is no language: `app`, `ui`, `db`.)
_CODES = (
    "aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee el en "
    "eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik io is it iu ja jv "
    "ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne "
    "ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk sl sm sn so sq sr ss st "
    "su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu"
)
_LANGUAGES = frozenset(_CODES.split())
_LANGUAGE_KEY = re.compile(r"([a-z]{2})(?:[-_][A-Za-z]{2,4})?")


class YamlTexts:
    """The format."""

    name = "yaml"
    suffixes: tuple[str, ...] = (".yaml", ".yml")

    def read(self, content: bytes, *, again: bool = False, target_language: str | None = None) -> TranslatableFile:
        """The strings with a word; names are the keys, joined with dots. Raises CorpusError for what is no YAML or
        nested too deep."""
        text, encoding = decoded(content, "utf-8")
        if is_broken(text):
            line = next(number for number, each in enumerate(text.split("\n"), 1) if is_broken(each))
            raise CorpusError(f"line {line}: bytes that are not {encoding}; save the file as UTF-8")
        found = list(scalars_of(text))
        scalars = [each for each in found if isinstance(each, YamlScalar)]
        return YamlFile(text, encoding, scalars, _language_key(found, scalars))


FORMAT = YamlTexts()


@dataclass(frozen=True, slots=True)
class _Text:
    unit: Unit
    scalar: YamlScalar


@dataclass(frozen=True, slots=True)
class YamlFile:
    """A file that was read."""

    text: str
    encoding: str
    scalars: Sequence[YamlScalar]
    language_key: YamlKey | None  # of Rails
    texts: Sequence[_Text] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "texts", list(self._texts()))

    @property
    def units(self) -> Sequence[Unit]:
        return [each.unit for each in self.texts]

    def write(self, texts: Sequence[str | None], language: str | None = None) -> bytes:
        """The file with these texts, and with this language as the key of all, if it is one of Rails. Raises SpecError
        for half of a character."""
        line_end = line_end_of(self.text)
        edits = [
            (each.scalar.start, each.scalar.stop, written(text, each.scalar, self.text, line_end))
            for each, text in zip(self.texts, texts, strict=True)
            if text is not None and text != each.unit.text
        ]
        key = self.language_key
        if language is not None and key is not None and key.text != (code := _like(language, key.text)):
            edits.append((key.start, key.stop, code if is_string(code) else double_quoted(code)))  # no, in YAML 1.1
        return edited_bytes(self.text, edits, self.encoding)

    def _texts(self) -> Iterator[_Text]:
        names = KeyNames()
        for scalar in self.scalars:
            if scalar.is_string and has_word(scalar.text):
                name = names.of(".".join(scalar.path[self.language_key is not None :]) or "text")
                context = _comment_above(self.text, scalar.key_start)
                yield _Text(Unit(name=name, text=scalar.text, markup=markup_of(scalar.text), context=context), scalar)


def _language_key(found: Sequence[YamlScalar | YamlKey], scalars: Sequence[YamlScalar]) -> YamlKey | None:
    """The only key of a file whose texts all stand below it, if it is a language."""
    keys = [each for each in found if isinstance(each, YamlKey)]
    if len(keys) != 1 or not scalars or min(map(len, map(attrgetter("path"), scalars))) < 2:
        return None
    language = _LANGUAGE_KEY.fullmatch(keys[0].text)
    return keys[0] if language and language[1] in _LANGUAGES else None


def _like(language: str, key: str) -> str:
    return language.replace("-", "_") if "_" in key else language


def _comment_above(text: str, at: int) -> str | None:
    """The lines of comments that stand directly above a key."""
    lines: list[str] = []
    first = max(0, at - _FURTHEST)
    start = text.rfind("\n", first, at) + 1
    while start > first:
        above = text.rfind("\n", first, start - 1) + 1
        comment = _COMMENT.fullmatch(text, above, start - 1)
        if comment is None:
            break
        lines.append(comment[1])
        start = above
    return "\n".join(filter(None, reversed(lines))) or None
