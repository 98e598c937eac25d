"""Translation memories (.tmx) and term bases (.tbx): entries that have a text in each of some languages.

The unit is the text in the file's own language, its translation a block of the target language behind it.
TMX 1.4b (https://www.gala-global.org/tmx-14b); TBX of ISO 30042:2008 (`termEntry`) and ISO 30042:2019 (`conceptEntry`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import quoteattr

from jobs.errors import SpecError
from jobs.files.markup.places import Place, Render
from jobs.files.markup.xml_content import content_of
from jobs.files.markup.xml_file import NamedPlace, XmlFile, indentation
from jobs.files.markup.xml_tree import Element, XmlText, read_xml
from jobs.files.translatable import ForeignFile, TranslatableFile

_LANGUAGE = ("xml:lang", "lang")


@dataclass(frozen=True, slots=True)
class _Shape:
    entry: str
    block: str  # of a language
    around: tuple[str, ...]  # elements from the block to the text
    text: str


_TMX = (_Shape("tu", "tuv", (), "seg"),)
_TBX = (_Shape("termEntry", "langSet", ("tig",), "term"), _Shape("conceptEntry", "langSec", ("termSec",), "term"))


@dataclass(slots=True)
class Entries:
    """A format."""

    name: str
    suffixes: tuple[str, ...]
    shapes: Sequence[_Shape]
    roots: tuple[str, ...]

    def read(self, content: bytes, *, again: bool = False, target_language: str | None = None) -> TranslatableFile:
        """The texts of the source language that have none in the target language, or all `again`. Without a target
        language, those of the entries that have one language. Raises CorpusError for a file that is no XML, ForeignFile
        for XML of another kind, such as the map of a game (.tmx, too)."""
        xml = read_xml(content)
        if (root := xml.elements[0].name) not in self.roots:
            raise ForeignFile(f"no {self.name.upper()}, whose root is <{self.roots[0]}>, but <{root[:30]}>")
        source_language = _source_language(xml)
        units = [
            found
            for element in xml.elements
            for shape in self.shapes
            if element.name == shape.entry
            and (found := _unit(xml, element, shape, source_language, target_language, again=again))
        ]
        return XmlFile(xml, units, [])


TMX = Entries("tmx", (".tmx",), _TMX, ("tmx",))
TBX = Entries("tbx", (".tbx",), _TBX, ("tbx", "martif"))


def _source_language(xml: XmlText) -> str | None:
    for element in xml.elements:
        if element.name == "header" and (found := xml.value(element, "srclang")):
            return None if found == "*all*" else found
        if element.name in ("martif", "tbx") and (found := _language(xml, element)):
            return found
        if element.name in ("tu", "termEntry", "conceptEntry"):
            break
    return None


def _unit(
    xml: XmlText,
    entry: Element,
    shape: _Shape,
    source_language: str | None,
    target_language: str | None,
    *,
    again: bool,
) -> NamedPlace | None:
    blocks = [(block, _language(xml, block) or "") for block in entry.children if block.name == shape.block]
    own = source_language if shape.entry != "tu" else xml.value(entry, "srclang") or source_language
    source = next((block for block, language in blocks if own is None or _is_same(language, own)), None)
    text = source and next(_texts(source, shape), None)
    others = [block for block, language in blocks if target_language and _is_same(language, target_language)]
    target = next((found for block in others for found in _texts(block, shape)), None)
    if source is None or text is None or source in others or (others and not (again and target)):
        return None
    if target_language is None and len(blocks) > 1:
        return None
    content = content_of(xml.text[text.inner : text.end])
    if not content.has_words:
        return None
    name = next((value for key in ("tuid", "id") if (value := xml.value(entry, key))), "")

    def fill(translation: str, render: Render) -> str:
        written = content.written(translation, name)
        if target is not None:
            tag = xml.text[target.start : target.inner].removesuffix("/>").removesuffix(">")
            return f"{tag}>{written}</{target.prefix}{target.name}>"
        if target_language is None:
            raise SpecError(f"a {shape.entry} names the language of each text; say the target language of the file")
        names = [text.prefix + each for each in (*shape.around, shape.text)]
        inside = "".join(f"<{each}>" for each in names) + written + "".join(f"</{each}>" for each in reversed(names))
        block = f"{source.prefix}{shape.block}"
        return f"{indentation(xml.text, source.start)}<{block} xml:lang={quoteattr(target_language)}>{inside}</{block}>"

    where = (source.stop, source.stop) if target is None else (target.start, target.stop)
    return NamedPlace(name, Place(*where, content.text, fill))


def _texts(block: Element, shape: _Shape) -> Iterator[Element]:
    """The texts of a language: at once in its block, or in groups of it (`tig`, `ntig`)."""
    for child in block.children:
        if child.name == shape.text:
            yield child
        for inner in child.children:
            yield from (
                [inner] if inner.name == shape.text else filter(lambda each: each.name == shape.text, inner.children)
            )


def _language(xml: XmlText, element: Element) -> str | None:
    return next((value for name in _LANGUAGE if (value := xml.value(element, name))), None)


def _is_same(one: str, other: str) -> bool:
    """`en` is the language of `en-US`, too."""
    first, second = one.lower().replace("_", "-"), other.lower().replace("_", "-")
    return first == second or first.startswith(second + "-") or second.startswith(first + "-")
