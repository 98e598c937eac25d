"""Documents of office programs: zips of XML parts, of which some have paragraphs.

Knows: parts. Does not know: how a format writes a paragraph.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from jobs.errors import CorpusError
from jobs.files.markup.encodings import encoded, within
from jobs.files.markup.places import Place, numbered, rewritten
from jobs.files.markup.xml_tree import Element, XmlText, read_xml
from jobs.files.markup.zip_package import ZipPackage
from jobs.files.translatable import Markup, TranslatableFile, Unit

DEEPEST = 40  # a paragraph in a text box in a paragraph ...


@dataclass(slots=True)
class OfficeFormat:
    """A format."""

    name: str
    suffixes: tuple[str, ...]
    parts: re.Pattern[str]  # names of those with paragraphs; a group is the name without folder and ending
    paragraphs: frozenset[str]  # elements
    skipped: frozenset[str]  # elements in which paragraphs are not translated
    place: Callable[[XmlText, Element, str], Place | None]  # of a paragraph; its number in the file is the third
    says_language: frozenset[str]  # names of parts
    languages: Callable[[Mapping[str, XmlText]], Iterable[tuple[str, Place]]]  # where these say it

    def read(self, content: bytes, *, again: bool = False, target_language: str | None = None) -> TranslatableFile:
        """The paragraphs. Raises CorpusError for a file that is broken, encrypted, or unpacks to far more."""
        package = ZipPackage.read(content)
        names = {info.filename for info in package.infos}
        with_paragraphs = {name for name in names if self.parts.fullmatch(name)}
        if not with_paragraphs:
            raise CorpusError(f"the file has none of the parts of a {self.suffixes[0]} file")
        contents = package.parts(with_paragraphs | (names & self.says_language))
        found = {name: _xml(name, contents[name]) for name in sorted(contents, key=self._order)}
        of_language: dict[str, list[Place]] = {}
        for name, place in self.languages(found):
            of_language.setdefault(name, []).append(place)
        parts = [_Part.read(name, self, xml, of_language.get(name, ())) for name, xml in found.items()]
        return OfficeFile(package, parts)

    def _order(self, name: str) -> tuple[int, str]:
        """The main part first: `document`, `content`."""
        return (0 if name in ("word/document.xml", "content.xml") else 1, name)


@dataclass(frozen=True, slots=True)
class _Part:
    name: str
    xml: XmlText
    units: Sequence[Unit]
    places: Sequence[Place]
    languages: Sequence[Place]  # filled with the language of the translation

    @classmethod
    def read(cls, name: str, form: OfficeFormat, xml: XmlText, languages: Sequence[Place]) -> "_Part":
        found = form.parts.fullmatch(name)
        if found is None:
            return cls(name, xml, (), (), languages)
        try:
            places = numbered(list(_places(xml, form)))
        except CorpusError as error:
            raise CorpusError(f"{name}: {error}") from error
        units = [
            Unit(name=f"{found[1]}/{number}", text=place.text, markup=Markup.XML)
            for number, place in enumerate(places, 1)
        ]
        return cls(name, xml, units, places, languages)

    def written(self, texts: Sequence[str | None], language: str | None) -> bytes | None:
        """The part with these texts and this language; None where it is as it was."""
        pairs = [(place, text) for place, text in zip(self.places, texts, strict=True) if text != place.text]
        if language is not None:
            pairs += [(place, language) for place in self.languages]
        if all(text is None for _, text in pairs):
            return None
        pairs.sort(key=lambda pair: (pair[0].start, -pair[0].stop))
        others = [None if text is None else within(text, self.xml.encoding) for _, text in pairs]
        written = rewritten(self.xml.text, [place for place, _ in pairs], others)
        return None if written == self.xml.text else encoded(written, self.xml.encoding)


@dataclass(frozen=True, slots=True)
class OfficeFile:
    """A file that was read."""

    package: ZipPackage
    parts: Sequence[_Part]

    @property
    def units(self) -> Sequence[Unit]:
        return [unit for part in self.parts for unit in part.units]

    def write(self, texts: Sequence[str | None], language: str | None = None) -> bytes:
        """The file with these texts, and with their language as that of the document. Raises SpecError for a text whose
        marks are not those of its unit."""
        changed, at = {}, 0
        for part in self.parts:
            end = at + len(part.units)
            if (content := part.written(texts[at:end], language)) is not None:
                changed[part.name] = content
            at = end
        return self.package.with_parts(changed)


def _xml(name: str, content: bytes) -> XmlText:
    try:
        return read_xml(content)
    except CorpusError as error:
        raise CorpusError(f"{name}: {error}") from error


def _places(xml: XmlText, form: OfficeFormat) -> list[Place]:
    depths: dict[int, int] = {}  # how many paragraphs are around and at an element
    skipped: set[int] = set()
    places: list[Place] = []
    for element in xml.elements:
        around = id(element.parent)
        depth = depths.get(around, 0) + (element.name in form.paragraphs)
        depths[id(element)] = depth
        if element.name in form.skipped or around in skipped:
            skipped.add(id(element))
            continue
        if element.name in form.paragraphs:
            if depth > DEEPEST:
                raise CorpusError(f"paragraphs within paragraphs, more than {DEEPEST} deep")
            if (place := form.place(xml, element, str(len(places) + 1))) is not None:
                places.append(place)
    return places
