"""Documents of office programs: zips of XML parts, of which some have paragraphs.

Knows: parts. Does not know: how a format writes a paragraph.
"""

import re
from collections.abc import Callable, Sequence
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

    def read(self, content: bytes, *, again: bool = False, target_language: str | None = None) -> TranslatableFile:
        """The paragraphs. Raises CorpusError for a file that is broken, encrypted, or unpacks to far more."""
        package = ZipPackage.read(content)
        names = [info.filename for info in package.infos if self.parts.fullmatch(info.filename)]
        contents = package.parts(set(names))
        parts = [_Part.read(name, self, contents[name]) for name in sorted(contents, key=self._order)]
        if not parts:
            raise CorpusError(f"the file has none of the parts of a {self.suffixes[0]} file")
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

    @classmethod
    def read(cls, name: str, form: OfficeFormat, content: bytes) -> "_Part":
        try:
            xml = read_xml(content)
            places = numbered(list(_places(xml, form)))
        except CorpusError as error:
            raise CorpusError(f"{name}: {error}") from error
        found = form.parts.fullmatch(name)
        stem = found[1] if found else name
        units = [
            Unit(name=f"{stem}/{number}", text=place.text, markup=Markup.XML) for number, place in enumerate(places, 1)
        ]
        return cls(name, xml, units, places)

    def written(self, texts: Sequence[str | None]) -> bytes | None:
        """The part with these texts; None where it is as it was."""
        others = [None if text is None else within(text, self.xml.encoding) for text in texts]
        if all(text is None or text == place.text for text, place in zip(others, self.places, strict=True)):
            return None
        return encoded(rewritten(self.xml.text, self.places, others), self.xml.encoding)


@dataclass(frozen=True, slots=True)
class OfficeFile:
    """A file that was read."""

    package: ZipPackage
    parts: Sequence[_Part]

    @property
    def units(self) -> Sequence[Unit]:
        return [unit for part in self.parts for unit in part.units]

    def write(self, texts: Sequence[str | None], language: str | None = None) -> bytes:
        """The file with these texts. Raises SpecError for one whose marks are not those of its unit."""
        changed, at = {}, 0
        for part in self.parts:
            end = at + len(part.units)
            if (content := part.written(texts[at:end])) is not None:
                changed[part.name] = content
            at = end
        return self.package.with_parts(changed)


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
