"""The content of an XML element as a text with marks, and a text as the content of an element.

What an element of native code holds (`<ph>&lt;br></ph>`) is no language: the whole element is a mark with a number,
`<1/>`, in the text. A section of CDATA is an escaped text.

Knows: inline elements of XLIFF and TMX. Does not know: where they stand.
"""

import re
from collections.abc import Sequence, Set
from dataclasses import dataclass
from html import unescape
from xml.sax.saxutils import escape

from jobs.errors import SpecError
from jobs.files.markup.tags import Kind, xml_tokens
from jobs.files.markup.xml_tree import fault_of
from jobs.files.words import has_word

# XLIFF 1.2 section 2.4, TMX 1.4b section 3.2: elements whose content is code.
_CODE = frozenset({"bpt", "ept", "it", "ph", "ut"})
# Sections of text that stay: XLIFF 1.2 section 2.4.2.4, XLIFF 2.1 section 4.7.3.1.
_PROTECTED = re.compile(r"<(?:[\w.-]+:)?mrk\s[^>]*?\b(?:mtype\s*=\s*[\"']protected|translate\s*=\s*[\"']no)\b")
_NUMBER = re.compile(r"<(\d+)/>")
_TAG = re.compile(r"<[^>]*+>")


@dataclass(frozen=True, slots=True)
class Content:
    """The content of an element."""

    text: str  # of the unit
    before: str  # blanks
    behind: str
    codes: Sequence[str]  # the elements of <1/>, <2/>, ...

    @property
    def has_words(self) -> bool:
        return has_word(unescape(_TAG.sub("", self.text)))

    def written(self, text: str, name: str) -> str:
        """Another text as content. Raises SpecError for one that is no XML; `name`: of the unit."""

        def code(found: re.Match[str]) -> str:
            number = int(found[1])
            if not 1 <= number <= len(self.codes):
                raise SpecError(f"unit {name}: its source has no <{number}/>")
            return self.codes[number - 1]

        content = _NUMBER.sub(code, text)
        if (fault := fault_of(content)) is not None:
            raise SpecError(f"unit {name}: the text is no XML ({fault}); write & as &amp; and < as &lt;")
        return f"{self.before}{content}{self.behind}"


def content_of(raw: str, code_elements: Set[str] = _CODE) -> Content:
    """`raw`: as it stands between the tags of the element. `code_elements`: those whose content is code."""
    pieces: list[str] = []
    codes: list[str] = []
    depth, start = 0, 0
    for token in xml_tokens(raw):
        name = token.name.rpartition(":")[2]
        is_code = token.kind in (Kind.OPEN, Kind.EMPTY) and (
            name in code_elements or (name == "mrk" and _PROTECTED.match(raw, token.start, token.stop))
        )
        if depth or is_code:
            start = start if depth else token.start
            depth += {Kind.OPEN: 1, Kind.CLOSE: -1}.get(token.kind, 0)
            if not depth:
                codes.append(raw[start : token.stop])
                pieces.append(f"<{len(codes)}/>")
        elif token.kind is Kind.CDATA:
            pieces.append(escape(raw[token.start + len("<![CDATA[") : token.stop - len("]]>")]))
        elif token.kind is not Kind.OTHER:
            pieces.append(raw[token.start : token.stop])
    text = "".join(pieces)
    stripped = text.strip()
    begin = text.find(stripped)
    return Content(stripped, text[:begin], text[begin + len(stripped) :], codes)
