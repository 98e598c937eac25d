r"""Android's strings.xml: `<string>`, `<plurals>` and `<string-array>` below `<resources>`.

    <!-- of a button -->                            the context of the unit `open`
    <string name="open">Don\'t open</string>        "Don't open"
    <plurals name="files">                          `files[one]`, `files[other]`, and what else the target language has
        <item quantity="one">%d file</item>
        <item quantity="other">%d files</item>

A unit is what Android makes of a string (escapes, quotation marks, blanks):
https://developer.android.com/guide/topics/resources/string-resource. A string without tags is a plain text, which may
be HTML behind references or in a section of CDATA; in one with tags `<xliff:g>` is a mark with all that is in it.
"""

import re
from collections.abc import Callable, Iterator
from html import unescape
from xml.sax.saxutils import escape

from jobs.files.char_limit import char_limit
from jobs.files.keyed_units import markup_of
from jobs.files.markup.places import Place, Render
from jobs.files.markup.plain_content import plain_content_of
from jobs.files.markup.plural_items import Item, plural_places
from jobs.files.markup.xml_content import content_of
from jobs.files.markup.xml_file import NamedPlace, XmlFile, with_attribute
from jobs.files.markup.xml_tree import Element, XmlText, read_xml
from jobs.files.plural_table import CATEGORIES
from jobs.files.translatable import ForeignFile, Markup, TranslatableFile
from jobs.files.words import has_word

_CODE = frozenset({"g"})  # of the namespace of XLIFF
_TAG = re.compile(r"(<[^>]*+>)")
_TOKEN = re.compile(r"\\u(?P<hex>[0-9A-Fa-f]{4})|\\(?P<sign>.)|(?P<quote>\")|(?P<blank>[ \t\r\n]++)", re.DOTALL)
_READ_AS = {"n": "\n", "t": "\t"}
_SIGN = re.compile(r"[\\'\"\n\t]|(?<= ) ")
_EDGE = re.compile(r"\A[@?\s]|\s\Z")  # spaces of any width
_WRITTEN = {"\n": "\\n", "\t": "\\t", " ": "\\u0020"}
_REFERENCE = re.compile(r"[@?][\w.:+*/-]*+")
_COMMENT = re.compile(r"<!--((?>(?:[^-]|-(?!->))*))-->\s*\Z")
_FOREIGN = "of files of XML those of Android are translated, whose root is <resources>"
_FURTHEST = 2000  # characters from a string back to its comment


class AndroidStrings:
    """The format."""

    name = "android"
    suffixes: tuple[str, ...] = (".xml",)

    def read(self, content: bytes, *, again: bool = False, target_language: str | None = None) -> TranslatableFile:
        """The strings that have a word and are not `translatable="false"`. Raises CorpusError for a file that is no
        XML, ForeignFile for XML of another kind."""
        if b"<resources" not in content.replace(b"\0", b""):  # of UTF-16; before the rest is read, which may be broken
            raise ForeignFile(_FOREIGN)
        xml = read_xml(content)
        root = xml.elements[0]
        if root.name != "resources":
            raise ForeignFile(_FOREIGN)
        named: list[NamedPlace] = []
        of_language: list[Place] = []
        for place in _places(xml, root, target_language):
            if isinstance(place, NamedPlace):
                named.append(place)
            else:
                of_language.append(place)
        return XmlFile(xml, named, of_language)


FORMAT = AndroidStrings()


def _places(xml: XmlText, root: Element, language: str | None) -> Iterator[NamedPlace | Place]:
    if _is_kept(xml, root):
        return
    for element in root.children:
        name = xml.value(element, "name") or ""
        if _is_kept(xml, element):
            continue
        about = _comment_above(xml.text, element.start)
        items = [child for child in element.children if child.name == "item"]
        if element.name == "string":
            yield from _text(xml, element, name, about)
        elif element.name == "string-array":
            for number, item in enumerate(items):
                yield from _text(xml, item, f"{name}.{number}", about)
        elif element.name == "plurals":
            yield from _plural(xml, items, name, about, language)


def _plural(
    xml: XmlText, items: list[Element], name: str, about: str | None, language: str | None
) -> Iterator[NamedPlace | Place]:
    elements = {(xml.value(item, "quantity") or ""): item for item in items}
    found = {
        category: Item(item.start, item.stop, text)
        for category, item in elements.items()
        if category in CATEGORIES
        for text in _text(xml, item, name, about, without_words=True)
    }
    if not any(_text(xml, item, name, about) for item in items):
        return

    def written(category: str, like: str, text: str) -> str:
        item = elements[like]
        first_tag = with_attribute(xml.text[item.start : item.inner], "quantity", category)
        return f"{first_tag}{found[like].text.place.fill(text, _as_it_is)}{xml.text[item.end : item.stop]}"

    if len(found) == len(items):
        yield from plural_places(xml, found, language, written)
    else:  # of a category twice, or of none that there is
        for item in items:
            yield from _text(xml, item, name, about)


def _as_it_is(start: int, stop: int) -> str:
    raise AssertionError("nothing stands within a string")


def _text(
    xml: XmlText, element: Element, name: str, about: str | None, *, without_words: bool = False
) -> list[NamedPlace]:
    """The place of an element's text; none of one that is a reference, or that has no word unless `without_words`."""
    raw = xml.text[element.inner : element.end]
    plain = plain_content_of(raw)
    content = content_of(raw, _CODE)
    if plain is not None:
        text = _meant(plain.text)
        has_words, markup, written = has_word(text), markup_of(text), plain.written
        if _REFERENCE.fullmatch(plain.text):
            return []
    else:
        parts = _TAG.split(content.text)
        text = "".join(_meant(part, escape) if number % 2 == 0 else part for number, part in enumerate(parts))
        has_words, markup, written = content.has_words, Markup.XML, content.written

    def fill(other: str, render: Render) -> str:
        if other == text:
            return raw
        parts = _TAG.split(other) if plain is None else [other]
        signs = "".join(_SIGN.sub(_escaped, part) if number % 2 == 0 else part for number, part in enumerate(parts))
        return written(_EDGE.sub(_escaped, signs), name)

    place = NamedPlace(name, Place(element.inner, element.end, text, fill, about), markup, char_limit(about))
    return [place] if has_words or without_words else []


def _meant(raw: str, written: Callable[[str], str] = str) -> str:
    """What Android shows. `written`: how the text has a sign that an escape stands for."""
    pieces: list[str] = []
    at, is_quoted = 0, False
    for found in _TOKEN.finditer(raw):
        pieces.append(raw[at : found.start()])
        at = found.end()
        if found["hex"]:
            pieces.append(written(chr(int(found["hex"], 16))))
        elif found["sign"]:
            pieces.append(_READ_AS.get(found["sign"], found["sign"]))
        elif found["quote"]:
            is_quoted = not is_quoted
        else:
            pieces.append(found[0] if is_quoted else " ")
    text = "".join([*pieces, raw[at:]])
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _escaped(found: re.Match[str]) -> str:
    sign = found[0]
    return _WRITTEN.get(sign, f"\\u{ord(sign):04x}" if sign.isspace() else f"\\{sign}")


def _is_kept(xml: XmlText, element: Element) -> bool:
    return xml.value(element, "translatable") == "false"


def _comment_above(text: str, at: int) -> str | None:
    """The comment that stands directly in front of an element."""
    start = max(0, at - _FURTHEST)
    begin = text.rfind("<!--", start, at)
    found = _COMMENT.fullmatch(text[begin:at]) if begin >= 0 else None
    return " ".join(unescape(found[1]).split()) or None if found else None
