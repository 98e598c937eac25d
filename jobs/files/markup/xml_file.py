"""An XML file that was read: its units, and the file with other texts and the language of these.

Knows: places. Does not know: formats.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from xml.sax.saxutils import quoteattr

from jobs.files.keyed_units import KeyNames
from jobs.files.markup.encodings import encoded, within
from jobs.files.markup.places import Place, Render, rewritten
from jobs.files.markup.xml_tree import Element, XmlText
from jobs.files.translatable import Markup, Unit


@dataclass(frozen=True, slots=True)
class NamedPlace:
    """The place of a unit that has a name in its file, or "" for one without."""

    name: str
    place: Place
    markup: Markup = Markup.XML
    max_chars: int | None = None  # what the file says that a translation may have


@dataclass(frozen=True, slots=True)
class SharedPlace:
    """The place of several units, which is written as a whole."""

    start: int
    stop: int
    named: Sequence[NamedPlace]  # of which the places say the texts alone
    fill: Callable[[Sequence[str | None]], str]  # what is written for their texts


@dataclass(frozen=True, slots=True)
class XmlFile:
    """A file that was read."""

    xml: XmlText
    named: Sequence[NamedPlace | SharedPlace]  # in the order of the file
    languages: Sequence[Place]  # where the file says the language of the translations
    units: Sequence[Unit] = field(init=False)

    def __post_init__(self) -> None:
        names = KeyNames()
        units = []
        named = (each for one in self.named for each in (one.named if isinstance(one, SharedPlace) else [one]))
        for number, each in enumerate(named, 1):
            name = names.of(each.name or str(number))
            place = each.place
            unit = Unit(name=name, text=place.text, markup=each.markup, context=place.context, max_chars=each.max_chars)
            units.append(unit)
        object.__setattr__(self, "units", units)

    def write(self, texts: Sequence[str | None], language: str | None = None) -> bytes:
        """The file with these texts. With a language, a text that equals its source is written, too. Raises SpecError
        for a text that is no XML."""
        pairs: list[tuple[Place, str | None]] = []
        rest = iter(zip(self.units, texts, strict=True))
        for each in self.named:
            if isinstance(each, SharedPlace):
                pairs += self._shared(each, list(islice(rest, len(each.named))), language)
            else:
                pairs.append((each.place, next(rest)[1]))
        if language is not None:
            pairs += [(place, language) for place in self.languages]
        pairs.sort(key=lambda pair: (pair[0].start, -pair[0].stop))
        others = [None if other is None else within(other, self.xml.encoding) for _, other in pairs]
        places = [place for place, _ in pairs]
        return encoded(rewritten(self.xml.text, places, others, equal_too=language is not None), self.xml.encoding)

    def _shared(
        self, shared: SharedPlace, pairs: Sequence[tuple[Unit, str | None]], language: str | None
    ) -> Iterator[tuple[Place, str]]:
        texts = [None if text is None else within(text, self.xml.encoding) for _, text in pairs]
        if any(text is not None and (language is not None or text != unit.text) for unit, text in pairs):
            yield Place(shared.start, shared.stop, "", lambda _, render: shared.fill(texts)), "all of it"


def with_attribute(tag: str, name: str, value: str) -> str:
    """A first tag with an attribute, in place of one of that name or behind all."""
    written, count = re.subn(rf"(?<=\s){name}\s*=\s*(?:\"[^\"]*\"|'[^']*')", f"{name}={quoteattr(value)}", tag, count=1)
    if count:
        return written
    end = len(tag) - (2 if tag.endswith("/>") else 1)
    return f"{tag[:end].rstrip()} {name}={quoteattr(value)}{tag[end:]}"


def language_place(xml: XmlText, element: Element, name: str) -> Place:
    """The first tag of an element, where an attribute says the language."""
    tag = xml.text[element.start : element.inner]

    def fill(language: str, render: Render) -> str:
        return with_attribute(tag, name, language)

    return Place(element.start, element.inner, xml.value(element, name.lower()) or "", fill)


_WIDEST = 1000  # columns of an indentation


def indentation(text: str, at: int) -> str:
    """The end of line and the blanks that stand in front of an element; "" where other text does."""
    start = text.rfind("\n", max(0, at - _WIDEST), at)
    start -= start > 0 and text[start - 1] == "\r"
    return text[start:at] if start >= 0 and text[start:at].isspace() else ""
