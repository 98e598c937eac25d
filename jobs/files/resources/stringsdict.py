"""Apple's plurals: .stringsdict, a property list of XML.

    <key>files</key>
    <dict>
        <key>NSStringLocalizedFormatKey</key>
        <string>%#@n@ copied</string>                   the unit `files`
        <key>n</key>
        <dict>
            <key>NSStringFormatSpecTypeKey</key>
            <string>NSStringPluralRuleType</string>
            <key>one</key> <string>%d file</string>     `files.n[one]`, `files.n[other]`, and what else the target
            <key>other</key> <string>%d files</string>  language has

`zero` is not a matter of the language there: it stays. Other strings are of widths and devices, and are texts, too.
"""

import re
from collections.abc import Iterator
from itertools import pairwise

from jobs.errors import CorpusError
from jobs.files.keyed_units import markup_of
from jobs.files.markup.places import Place, Render
from jobs.files.markup.plain_content import PlainContent, plain_content_of
from jobs.files.markup.plural_items import Item, plural_places
from jobs.files.markup.xml_file import NamedPlace, XmlFile
from jobs.files.markup.xml_tree import Element, XmlText, read_xml
from jobs.files.plural_table import CATEGORIES
from jobs.files.translatable import TranslatableFile
from jobs.files.words import has_word

_NO_TEXTS = frozenset({"NSStringFormatSpecTypeKey", "NSStringFormatValueTypeKey"})
_FORMAT_KEY = "NSStringLocalizedFormatKey"
_VARIABLE = re.compile(r"%(?:\d+\$)?#@[^@]*@|%(?:\d+\$)?[a-zA-Z@]+")
_DEEPEST = 10  # dictionaries within each other


class StringsDict:
    """The format."""

    name = "stringsdict"
    suffixes: tuple[str, ...] = (".stringsdict",)

    def read(self, content: bytes, *, again: bool = False, target_language: str | None = None) -> TranslatableFile:
        """The strings that have a word. Raises CorpusError for a file that is no property list of XML."""
        if content.startswith(b"bplist"):
            raise CorpusError("a compiled property list; convert it (plutil -convert xml1)")
        xml = read_xml(content)
        outermost = xml.elements[0].child("dict")
        if xml.elements[0].name != "plist" or outermost is None:
            raise CorpusError("no property list: its root is not <plist> with a <dict>")
        named: list[NamedPlace] = []
        of_language: list[Place] = []
        for place in _places(xml, outermost, (), target_language):
            if isinstance(place, NamedPlace):
                named.append(place)
            else:
                of_language.append(place)
        return XmlFile(xml, named, of_language)


FORMAT = StringsDict()


def _places(xml: XmlText, around: Element, path: tuple[str, ...], language: str | None) -> Iterator[NamedPlace | Place]:
    if len(path) > _DEEPEST:
        raise CorpusError(f"more than {_DEEPEST} dictionaries within each other")
    pairs = {
        _key(xml, key): (key, value)
        for key, value in pairwise(around.children)
        if key.name == "key" and value.name in ("dict", "string")
    }
    plurals = {key: pair for key, pair in pairs.items() if key in CATEGORIES and pair[1].name == "string"}
    if "other" in plurals and len(path) > 0:
        yield from _plural(xml, plurals, path, language)
    else:
        plurals = {}
    for key, (_, value) in pairs.items():
        if value.name == "dict":
            yield from _places(xml, value, (*path, key), language)
        elif key not in _NO_TEXTS and key not in plurals:
            content = _content(xml, value)
            words = _VARIABLE.sub("", content.text) if content is not None else ""
            if content is not None and has_word(words):
                yield _text(value, content, ".".join(path if key == _FORMAT_KEY else (*path, key)))


def _plural(
    xml: XmlText, pairs: dict[str, tuple[Element, Element]], path: tuple[str, ...], language: str | None
) -> Iterator[NamedPlace | Place]:
    name = ".".join(path)
    contents = {category: _content(xml, value) for category, (_, value) in pairs.items()}
    items = {
        category: Item(pairs[category][0].start, pairs[category][1].stop, _text(pairs[category][1], content, name))
        for category, content in contents.items()
        if content is not None
    }

    def written(category: str, like: str, text: str) -> str:
        key, value = pairs[like]
        between = xml.text[key.stop : value.start]
        filled = items[like].text.place.fill(text, _nothing_within)
        return f"<key>{category}</key>{between}<string>{filled}</string>"

    if len(items) == len(pairs):
        yield from plural_places(xml, items, language, written, kept=frozenset({"zero"}))


def _nothing_within(start: int, stop: int) -> str:
    return ""


def _text(value: Element, content: PlainContent, name: str) -> NamedPlace:
    def fill(text: str, render: Render) -> str:
        return content.written(text, name)

    return NamedPlace(name, Place(value.inner, value.end, content.text, fill), markup_of(content.text))


def _content(xml: XmlText, value: Element) -> PlainContent | None:
    return plain_content_of(xml.text[value.inner : value.end])


def _key(xml: XmlText, key: Element) -> str:
    content = _content(xml, key)
    return content.text if content is not None else ""
