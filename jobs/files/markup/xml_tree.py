"""The elements of an XML file with their positions.

expat decides whether the file is well-formed, and refuses entities; the positions are those of `xml_tokens`. (lxml has
none, and writes a file anew.) Nothing here calls itself, so depth costs no more than length.

Knows: XML. Does not know: formats.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NoReturn
from xml.parsers import expat

from jobs.errors import CorpusError
from jobs.files.markup.encodings import decoded, is_broken
from jobs.files.markup.tags import Attribute, Kind, Token, attributes, xml_tokens

_DECLARED = re.compile(rb"<\?xml[^>]*?encoding\s*=\s*[\"']([\w.-]+)")
MOST_ELEMENTS = 2_000_000  # of a file: 475 bytes of memory each
_HEAD = 200  # bytes of an XML declaration, and more


@dataclass(slots=True, eq=False)
class Element:
    """An element: `start` and `stop` with its tags, `inner` and `end` without them."""

    name: str  # without prefix
    prefix: str  # with its colon: "w:"
    token: Token  # its first tag
    parent: "Element | None"
    inner: int
    end: int
    stop: int
    children: "list[Element]" = field(default_factory=list)

    @property
    def start(self) -> int:
        return self.token.start

    def child(self, name: str) -> "Element | None":
        """The first child of that name."""
        return next((each for each in self.children if each.name == name), None)


@dataclass(frozen=True, slots=True)
class XmlText:
    """A file that was read."""

    text: str
    encoding: str
    elements: list[Element]  # each after the one that it is in

    def attribute(self, element: Element, name: str) -> Attribute | None:
        """By its name in lower case, with its prefix."""
        return next((each for each in attributes(self.text, element.token) if each.name == name), None)

    def value(self, element: Element, name: str) -> str | None:
        found = self.attribute(element, name)
        return found and found.value


def read_xml(content: bytes) -> XmlText:
    """Raises CorpusError, with the line, for a file that is not well-formed, that declares entities, or whose bytes are
    not of its encoding."""
    found = _DECLARED.search(content, 0, _HEAD)
    text, encoding = decoded(content, found[1].decode() if found else "utf-8")
    if is_broken(text):
        line = next(number for number, each in enumerate(text.split("\n"), 1) if is_broken(each))
        raise CorpusError(f"line {line}: bytes that are not {encoding}, the encoding of the file; save it as UTF-8")
    _check(text)
    return XmlText(text, encoding, list(_elements(text)))


def fault_of(fragment: str) -> str | None:
    """What keeps a text with tags from being the content of an element; None where it can be."""
    try:
        expat.ParserCreate("utf-8").Parse(f"<x>{fragment}</x>".encode("utf-8", "surrogatepass"), True)
    except expat.ExpatError as error:
        return expat.ErrorString(error.code)
    return None


def _check(text: str) -> None:
    parser = expat.ParserCreate("utf-8")  # of the text, whatever the file says

    def refuse_subset(name: str, system: str | None, public: str | None, has_internal_subset: int) -> None:
        if has_internal_subset:
            _refuse(parser, "declarations within <!DOCTYPE>")

    def refuse_entity(*about: object) -> None:
        _refuse(parser, "the declaration of an entity")

    parser.StartDoctypeDeclHandler = refuse_subset
    parser.EntityDeclHandler = refuse_entity
    try:
        parser.Parse(text.encode(), True)
    except expat.ExpatError as error:
        raise CorpusError(f"line {error.lineno}: no well-formed XML ({expat.ErrorString(error.code)})") from error


def _refuse(parser: expat.XMLParserType, what: str) -> NoReturn:
    raise CorpusError(f"line {parser.CurrentLineNumber}: {what}, which kvjobs refuses; remove it")


def _elements(text: str) -> Iterator[Element]:
    open_element: Element | None = None
    count = 0
    for token in xml_tokens(text):
        if token.kind in (Kind.OPEN, Kind.EMPTY):
            prefix, colon, name = token.name.rpartition(":")
            element = Element(name, prefix + colon, token, open_element, token.stop, token.stop, token.stop)
            if open_element is not None:
                open_element.children.append(element)
            count += 1
            if count > MOST_ELEMENTS:
                raise CorpusError(f"the file has more than {MOST_ELEMENTS:,} elements; split it")
            yield element
            if token.kind is Kind.OPEN:
                open_element = element
        elif token.kind is Kind.CLOSE and open_element is not None:
            open_element.end, open_element.stop = token.start, token.stop
            open_element = open_element.parent
