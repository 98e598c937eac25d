"""Tags and texts with their positions, of HTML as browsers read it and of XML that a parser has accepted.

Own code, because libraries drop the positions (lxml, html5lib, selectolax) or take quadratic time over comments and
tags that never close (`html.parser` of Python before 3.13.6). Time is linear in the length of any text: whatever never
closes reaches to its end.

Knows: the tokens of both (https://html.spec.whatwg.org/#tokenization). Does not know: what elements mean.
"""

import re
from collections.abc import Iterator
from enum import Enum, auto
from typing import NamedTuple


class Kind(Enum):
    TEXT = auto()
    OPEN = auto()
    CLOSE = auto()
    EMPTY = auto()  # <br/>
    OTHER = auto()  # a comment, a declaration, an instruction
    CDATA = auto()  # a section of XML
    RAW = auto()  # what stands in <script> and the like


class Token(NamedTuple):
    kind: Kind
    name: str  # of a tag; of HTML in lower case
    start: int
    stop: int


class Attribute(NamedTuple):
    name: str  # in lower case
    value: str  # as it stands in the file
    start: int  # of the value, within its quotes
    stop: int
    quote: str  # "" where it has none


# An attribute whose quotes never close is read on to the next ">". No part goes back over what it took.
_REST_OF_TAG = r"[^\s/>]*+)(?:[\s/]++|[^\s/>][^\s/>=]*+(?>(?:\s*+=\s*+(?:\"[^\"]*+\"|'[^']*+'|(?![\"'])[^\s>]*+))?))*+>"
HTML_TAG = re.compile(r"<(/?)([a-zA-Z]" + _REST_OF_TAG)
_XML_TAG = re.compile(r"<(/?)([^\s/>!?<\d]" + _REST_OF_TAG)
_ATTRIBUTE = re.compile(
    r"[\s/]*+(?P<name>[^\s/>][^\s/>=]*+)(?>(?:\s*+=\s*+(?:\"(?P<double>[^\"]*+)\"|'(?P<single>[^']*+)'|(?![\"'])(?P<bare>[^\s>]*+)))?)"
)
_NAME = re.compile(r"<[^\s/>]++")
_RAW = frozenset({"iframe", "noembed", "noframes", "plaintext", "script", "style", "textarea", "title", "xmp"})


def html_tokens(text: str, *, is_xml: bool = False) -> Iterator[Token]:
    """The tokens of a page, which cover it. `is_xml`: XHTML, in which `<script/>` has no content."""
    closing: dict[str, re.Pattern[str]] = {}
    at, last_instruction = 0, text.rfind("?>")
    while (start := text.find("<", at)) >= 0:
        tag = HTML_TAG.match(text, start)
        if tag is None:
            following = text[start + 1 : start + 2]
            if following in ("!", "?", "/"):
                if start > at:
                    yield Token(Kind.TEXT, "", at, start)
                at = _end_of_other(text, start, last_instruction)
                yield Token(Kind.OTHER, "", start, at)
                continue
            if following.isascii() and following.isalpha():  # a tag that never closes, which browsers drop
                if start > at:
                    yield Token(Kind.TEXT, "", at, start)
                yield Token(Kind.OTHER, "", start, len(text))
                return
            yield Token(Kind.TEXT, "", at, start + 1)
            at = start + 1
            continue
        if start > at:
            yield Token(Kind.TEXT, "", at, start)
        at, name = tag.end(), tag[2].lower()
        kind = _kind(tag)
        if name in _RAW and not is_xml and kind is Kind.EMPTY:
            kind = Kind.OPEN
        yield Token(kind, name, start, at)
        if kind is Kind.OPEN and name in _RAW:
            if name not in closing:
                closing[name] = re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE)
            end = closing[name].search(text, at)
            stop = len(text) if end is None else end.start()
            if stop > at:
                yield Token(Kind.RAW, name, at, stop)
            at = stop
    if at < len(text):
        yield Token(Kind.TEXT, "", at, len(text))


def xml_tokens(text: str) -> Iterator[Token]:
    """The tokens of well-formed XML, which cover it."""
    at, last_instruction = 0, text.rfind("?>")
    while (start := text.find("<", at)) >= 0:
        if start > at:
            yield Token(Kind.TEXT, "", at, start)
        tag = _XML_TAG.match(text, start)
        if tag is not None:
            at = tag.end()
            yield Token(_kind(tag), tag[2], start, at)
        elif text.startswith("<![CDATA[", start):
            at = _after(text, "]]>", start)
            yield Token(Kind.CDATA, "", start, at)
        else:
            at = _end_of_other(text, start, last_instruction)
            yield Token(Kind.OTHER, "", start, at)
    if at < len(text):
        yield Token(Kind.TEXT, "", at, len(text))


def attributes(text: str, tag: Token) -> Iterator[Attribute]:
    """The attributes of a tag, in their order."""
    at = name.end() if (name := _NAME.match(text, tag.start)) else tag.stop
    while (found := _ATTRIBUTE.match(text, at, tag.stop - 1)) is not None:
        group = found.lastgroup or "name"
        quote = {"double": '"', "single": "'"}.get(group, "")
        if group == "name":
            yield Attribute(found["name"].lower(), "", found.end(), found.end(), quote)
        else:
            yield Attribute(found["name"].lower(), found[group], *found.span(group), quote)
        at = found.end()


def _kind(tag: re.Match[str]) -> Kind:
    if tag[1]:
        return Kind.CLOSE
    raw = tag[0]
    if not raw.endswith("/>"):
        return Kind.OPEN
    last = raw[max(raw.rfind(sign) for sign in " \t\r\n\"'") + 1 :]  # in <a href=x/> the slash is of the value
    return Kind.OPEN if "=" in last else Kind.EMPTY


def _end_of_other(text: str, start: int, last_instruction: int) -> int:
    """Where a comment, a declaration or an instruction ends. `last_instruction`: the last end of one in the text."""
    if text.startswith("<!--", start):
        return _after(text, "-->", start + 2)  # <!--> is one, too
    if text.startswith("<?", start) and start < last_instruction:  # PHP has ">" within
        return _after(text, "?>", start)
    return _after(text, ">", start)


def _after(text: str, sign: str, start: int) -> int:
    end = text.find(sign, start)
    return len(text) if end < 0 else end + len(sign)
