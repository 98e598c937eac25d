"""What a paragraph of Word is made of: texts with their formats, and what is no text (ECMA-376 part 1, section 17.3).

A link, a tracked insertion, a content control and the like stand around runs, and so does a link that is written as a
field (17.16.5.25): they belong to the format of the texts in them. Every other field is no text, with its result.

Knows: runs, fields. Does not know: marks, translations.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from jobs.files.markup.xml_content import content_of
from jobs.files.markup.xml_tree import Element, XmlText

DEEPEST = 20  # of elements around a run

_AROUND_RUNS = frozenset({"bdo", "customXml", "dir", "hyperlink", "ins", "moveTo", "sdt", "smartTag"})
_OF_AROUND = frozenset({"customXmlPr", "smartTagPr"})
# Content controls whose text is that of another place, or one of a list.
_KEPT_CONTROLS = frozenset(
    {"bibliography", "checkbox", "citation", "comboBox", "dataBinding", "date", "docPartList", "docPartObj",
     "dropDownList", "equation", "group", "picture"}
)  # fmt: skip
_DROPPED = frozenset({"lastRenderedPageBreak", "proofErr", "softHyphen"})
_OF_NO_FORMAT = re.compile(r"<(?:\w+:)?(?:lang|noProof)\b[^>]*/>")
_EMPTY_FORMAT = re.compile(r"<(?:\w+:)?rPr\s*(?:/>|>\s*</(?:\w+:)?rPr>)")
_FIELD = re.compile(r"\s*([A-Za-z]+)")
_OF_TEXTS = frozenset({"HYPERLINK", "INDEX", "TOC"})  # fields whose results are texts of the document


@dataclass(frozen=True, slots=True)
class Around:
    """What stands around runs, and where it starts: two links of one address are not one."""

    before: str
    behind: str
    start: int


@dataclass(frozen=True, slots=True)
class Format:
    """How a text looks, and what stands around it."""

    properties: str = ""  # <w:rPr>...</w:rPr>, or ""
    around: Around | None = None


@dataclass(frozen=True, slots=True)
class Piece:
    """A text, or what stands in the XML from `start` to `stop`. `first`, `last`: children of the paragraph with it."""

    first: int
    last: int
    format: Format
    text: str | None = None
    start: int = 0
    stop: int = 0
    in_run: bool = True


@dataclass(slots=True)
class _Field:
    """A field by the numbers of the siblings where it begins, has its separator, and ends."""

    begin: int
    separator: int | None = None
    end: int | None = None
    instruction: list[str] = field(default_factory=list)

    @property
    def is_of_texts(self) -> bool:
        found = _FIELD.match("".join(self.instruction))
        return self.separator is not None and found is not None and found[1].upper() in _OF_TEXTS


def pieces_of(xml: XmlText, children: Sequence[Element]) -> Iterator[Piece]:
    """`children`: of a paragraph, without its properties."""
    return _pieces(xml, children, [(index, index) for index in range(len(children))], None, DEEPEST)


def _pieces(
    xml: XmlText,
    siblings: Sequence[Element],
    indices: Sequence[tuple[int, int]],
    around: Around | None,
    depth: int,
) -> Iterator[Piece]:
    fields = _fields(xml, siblings)

    def mark(first: int, last: int) -> Piece:
        start, stop = siblings[first].start, siblings[last].stop
        return Piece(indices[first][0], indices[last][1], Format("", around), None, start, stop, in_run=False)

    at = 0
    while at < len(siblings):
        child, found, last = siblings[at], fields.get(at), at
        inner = _around(xml, child, around) if child.name in _AROUND_RUNS else None
        if found is not None and depth and found.is_of_texts and found.separator is not None:
            last = found.separator
            if found.end is None:
                yield mark(at, last)
            else:
                behind = xml.text[siblings[found.end].start : siblings[found.end].stop]
                link = _within(around, xml.text[child.start : siblings[last].stop], behind, child.start)
                span = (indices[at][0], indices[found.end][1])
                result = siblings[last + 1 : found.end]
                yield from _pieces(xml, result, [span] * len(result), link, depth - 1)
                last = found.end
        elif found is not None:
            last = len(siblings) - 1 if found.end is None else found.end
            yield mark(at, last)
        elif inner is not None and depth and not _net(xml, child):
            content = _content(child)
            yield from _pieces(xml, content, [indices[at]] * len(content), inner, depth - 1)
        elif child.name == "r" and not any(each.name == "fldChar" for each in child.children):
            yield from _of_run(xml, indices[at], child, around)
        elif child.name not in _DROPPED:
            yield mark(at, at)
        at = last + 1


def _fields(xml: XmlText, siblings: Sequence[Element]) -> dict[int, _Field]:
    """The fields that begin among siblings, by where they do; those within another one, too."""
    fields: dict[int, _Field] = {}
    still_open: list[_Field] = []
    for index, child in enumerate(siblings):
        if child.name == "r" and still_open:
            current = still_open[-1]
            for each in child.children:
                if each.name == "instrText" and current.separator is None:
                    current.instruction.append(xml.text[each.inner : each.end])
                elif each.name == "fldChar" and _kind(xml, each) == "separate" and current.separator is None:
                    current.separator = index
        net = _net(xml, child)
        if net > 0:
            still_open += [fields.setdefault(index, _Field(index)) for _ in range(net)]
        for _ in range(min(-net, len(still_open))):
            still_open.pop().end = index
    return fields


def _net(xml: XmlText, element: Element) -> int:
    """How many more fields begin than end in a run, or in what stands around runs."""
    net, stack = 0, [(element, DEEPEST)]
    while stack:
        child, depth = stack.pop()
        if child.name == "r":
            kinds = [_kind(xml, each) for each in child.children if each.name == "fldChar"]
            net += kinds.count("begin") - kinds.count("end")
        elif child.name in _AROUND_RUNS and depth:
            stack += [(each, depth - 1) for each in _content(child)]
    return net


def _kind(xml: XmlText, character: Element) -> str | None:
    return xml.value(character, f"{character.prefix}fldchartype".lower())


def _content(around: Element) -> Sequence[Element]:
    holder = around.child("sdtContent") if around.name == "sdt" else around
    return [each for each in holder.children if each.name not in _OF_AROUND] if holder is not None else []


def _around(xml: XmlText, element: Element, outer: Around | None) -> Around | None:
    """What an element adds to what stands around it; None for one whose text is kept."""
    holder, properties = element, next((each for each in element.children if each.name in _OF_AROUND), None)
    if element.name == "sdt":
        control, content = element.child("sdtPr"), element.child("sdtContent")
        if content is None or (control is not None and any(each.name in _KEPT_CONTROLS for each in control.children)):
            return None
        holder = content
    before = xml.text[element.start : holder.inner if properties is None else properties.stop]
    return _within(outer, before, xml.text[holder.end : element.stop], element.start)


def _within(outer: Around | None, before: str, behind: str, start: int) -> Around:
    return Around(before, behind, start) if outer is None else Around(
        outer.before + before, behind + outer.behind, start
    )  # fmt: skip


def _of_run(xml: XmlText, indices: tuple[int, int], run: Element, around: Around | None) -> Iterator[Piece]:
    properties = run.child("rPr")
    raw = "" if properties is None else xml.text[properties.start : properties.stop]
    look = Format(_EMPTY_FORMAT.sub("", _OF_NO_FORMAT.sub("", raw)), around)
    for child in run.children:
        if child.name == "t":
            content = xml.text[child.inner : child.end]
            yield Piece(*indices, look, content_of(content).text if "<" in content else content)
        elif child.name == "noBreakHyphen":
            yield Piece(*indices, look, "\u2011")
        elif child is not properties and child.name not in _DROPPED:
            yield Piece(*indices, look, None, child.start, child.stop)
