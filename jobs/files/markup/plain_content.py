"""The content of an XML element that has no elements, as a text without references, and such a text as its content."""

from dataclasses import dataclass
from html import unescape
from xml.sax.saxutils import escape

from jobs.errors import SpecError
from jobs.files.markup.xml_tree import fault_of

_BEGIN, _END = "<![CDATA[", "]]>"


@dataclass(frozen=True, slots=True)
class PlainContent:
    """The content, without the blanks around it."""

    text: str
    before: str
    behind: str
    is_cdata: bool

    def written(self, text: str, name: str) -> str:
        """Another text as content. Raises SpecError for a character that XML lacks; `name`: of the unit."""
        content = f"{_BEGIN}{text}{_END}" if self.is_cdata and _END not in text else escape(text)
        if (fault := fault_of(content)) is not None:
            raise SpecError(f"unit {name}: the text has a character that XML does not have ({fault})")
        return f"{self.before}{content}{self.behind}"


def plain_content_of(raw: str) -> PlainContent | None:
    """`raw`: as it stands between the tags of the element; None where elements or comments stand in it."""
    inner = raw.strip()
    start = raw.find(inner)
    before, behind = raw[:start], raw[start + len(inner) :]
    if inner.startswith(_BEGIN) and inner.find(_END) == len(inner) - len(_END):
        return PlainContent(inner[len(_BEGIN) : -len(_END)], before, behind, True)
    return None if "<" in inner else PlainContent(unescape(inner), before, behind, False)
