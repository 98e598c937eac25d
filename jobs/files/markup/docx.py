"""Word's documents: .docx, by paragraphs (ECMA-376 part 1, section 17.3).

A paragraph is a row of runs, each with its format. Neighbours of one format are one; the format that most of the text
has is that of the unit, each other one a pair of marks, and what is no text (a break, a note, a picture, a field) is
one mark. A changed paragraph is written with new runs; proofing marks and the languages of runs go.

    <w:r><w:t>One </w:t></w:r><w:r><w:rPr><w:b/></w:rPr><w:t>bold</w:t></w:r>      "One <1>bold</1>"
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from jobs.files.markup.marked_text import Part, has_words, parts_of
from jobs.files.markup.office_file import OfficeFormat
from jobs.files.markup.office_language import docx_languages
from jobs.files.markup.places import Place, Render
from jobs.files.markup.xml_content import content_of
from jobs.files.markup.xml_tree import Element, XmlText

_AROUND_RUNS = frozenset({"hyperlink", "ins", "smartTag"})
_DROPPED = frozenset({"lastRenderedPageBreak", "proofErr", "softHyphen"})
_OF_NO_FORMAT = re.compile(r"<(?:\w+:)?(?:lang|noProof)\b[^>]*/>")
_EMPTY_FORMAT = re.compile(r"<(?:\w+:)?rPr\s*(?:/>|>\s*</(?:\w+:)?rPr>)")


@dataclass(frozen=True, slots=True)
class _Format:
    """How a text looks, and the first tag of the link that it is in."""

    properties: str  # <w:rPr>...</w:rPr>, or ""
    around: "Element | None" = None


@dataclass(frozen=True, slots=True)
class _Piece:
    """A text with its format, or what stands in the XML from `start` to `stop`."""

    child: int  # of the paragraph
    format: _Format | None  # None for a mark that is not in a run
    text: str | None = None
    start: int = 0
    stop: int = 0


def _place(xml: XmlText, paragraph: Element, name: str) -> Place | None:
    if paragraph.prefix != xml.elements[0].prefix:  # of DrawingML, whose runs are written otherwise
        return None
    children = [child for child in paragraph.children if child.name != "pPr"]
    pieces = list(_pieces(xml, children))
    with_text = [piece.child for piece in pieces if piece.text and not piece.text.isspace()]
    if not with_text:
        return None
    first, last = with_text[0], with_text[-1]
    ahead, groups, behind = _apart(_merged([piece for piece in pieces if first <= piece.child <= last]))
    sizes: Counter[_Format] = Counter()
    for piece in groups:
        if piece.text and piece.format and piece.format.around is None:
            sizes[piece.format] += len(piece.text)
    most = sizes.most_common(1)[0][0] if sizes else _Format("")
    numbered = [piece for piece in groups if piece.text is None or piece.format != most]
    number_of = {id(piece): number for number, piece in enumerate(numbered, 1)}
    text = "".join(_shown(piece, number_of.get(id(piece))) for piece in groups)
    if not has_words(text):
        return None
    run = next(element for element in _with_runs(children) if element.name == "r")

    def fill(translation: str, render: Render) -> str:
        written = [_mark(xml, run.prefix, piece, render) for piece in ahead]
        formats = [most]
        lost = {number_of[id(piece)] for piece in numbered if piece.text is None}
        for part, number, characters in parts_of(translation, len(numbered), name):
            piece = numbered[number - 1] if number else None
            if piece is None:
                written.append(_run(xml, run.prefix, formats[-1], _text(run.prefix, characters)))
            elif piece.text is None and part is not Part.CLOSE:
                written.append(_mark(xml, run.prefix, piece, render))
                lost.discard(number)
            elif part is Part.OPEN and piece.format is not None:
                formats.append(piece.format)
            elif part is Part.CLOSE and len(formats) > 1:
                formats.pop()
        rest = [*(numbered[number - 1] for number in sorted(lost)), *behind]
        written += [_mark(xml, run.prefix, piece, render) for piece in rest]
        return "".join(written)

    return Place(children[first].start, children[last].stop, text, fill)


def _pieces(xml: XmlText, children: list[Element]) -> Iterator[_Piece]:
    fields, start = 0, 0
    for index, child in enumerate(children):
        begins, ends = _field_ends(xml, child)
        if fields or begins > ends:  # from the begin of a field to its end, all is one mark
            start = start if fields else child.start
            fields += begins - ends
            if fields <= 0 or index == len(children) - 1:
                fields = 0
                yield _Piece(index, None, None, start, child.stop)
        elif begins or ends:
            yield _Piece(index, None, None, child.start, child.stop)
        elif child.name == "r":
            yield from _of_run(xml, index, child, None)
        elif child.name in _AROUND_RUNS and all(each.name in ("r", "proofErr") for each in child.children):
            for run in child.children:
                if run.name == "r":
                    yield from _of_run(xml, index, run, child)
        elif child.name not in _DROPPED:
            yield _Piece(index, None, None, child.start, child.stop)


def _field_ends(xml: XmlText, child: Element) -> tuple[int, int]:
    runs = [child] if child.name == "r" else [each for each in child.children if each.name == "r"]
    found = [
        xml.value(each, f"{each.prefix}fldchartype".lower())
        for run in runs
        for each in run.children
        if each.name == "fldChar"
    ]
    return found.count("begin"), found.count("end")


def _of_run(xml: XmlText, index: int, run: Element, around: Element | None) -> Iterator[_Piece]:
    properties = run.child("rPr")
    raw = "" if properties is None else xml.text[properties.start : properties.stop]
    shown = _EMPTY_FORMAT.sub("", _OF_NO_FORMAT.sub("", raw))
    look = _Format(shown, around)
    for child in run.children:
        if child.name == "t":
            content = xml.text[child.inner : child.end]
            yield _Piece(index, look, content_of(content).text if "<" in content else content)
        elif child.name == "noBreakHyphen":
            yield _Piece(index, look, "\u2011")
        elif child is not properties and child.name not in _DROPPED:
            yield _Piece(index, look, None, child.start, child.stop)


def _merged(pieces: list[_Piece]) -> list[_Piece]:
    """Neighbours of one format as one."""
    merged: list[list[_Piece]] = []
    for piece in pieces:
        if (
            merged
            and piece.text is not None
            and merged[-1][0].text is not None
            and merged[-1][0].format == piece.format
        ):
            merged[-1].append(piece)
        else:
            merged.append([piece])
    return [
        group[0]
        if len(group) == 1
        else _Piece(group[0].child, group[0].format, "".join(each.text or "" for each in group))
        for group in merged
    ]


def _apart(pieces: list[_Piece]) -> tuple[list[_Piece], list[_Piece], list[_Piece]]:
    """The marks ahead of all texts, what is between these, the marks behind them."""
    texts = [index for index, piece in enumerate(pieces) if piece.text is not None]
    return pieces[: texts[0]], pieces[texts[0] : texts[-1] + 1], pieces[texts[-1] + 1 :]


def _shown(piece: _Piece, number: int | None) -> str:
    if piece.text is None:
        return f"<{number}/>"
    return piece.text if number is None else f"<{number}>{piece.text}</{number}>"


def _with_runs(children: list[Element]) -> Iterator[Element]:
    for child in children:
        yield child
        yield from child.children


def _text(prefix: str, characters: str) -> str:
    return f'<{prefix}t xml:space="preserve">{characters}</{prefix}t>'


def _mark(xml: XmlText, prefix: str, piece: _Piece, render: Render) -> str:
    raw = render(piece.start, piece.stop)
    return raw if piece.format is None else _run(xml, prefix, piece.format, raw)


def _run(xml: XmlText, prefix: str, look: _Format, inside: str) -> str:
    run = f"<{prefix}r>{look.properties}{inside}</{prefix}r>"
    if look.around is None:
        return run
    around = look.around
    return f"{xml.text[around.start : around.inner]}{run}</{around.prefix}{around.name}>"


FORMAT = OfficeFormat(
    name="docx",
    suffixes=(".docx",),
    parts=re.compile(r"word/(document\d*|header\d*|footer\d*|footnotes|endnotes|comments)\.xml"),
    paragraphs=frozenset({"p"}),
    skipped=frozenset(),
    place=_place,
    says_language=frozenset({"word/styles.xml", "docProps/core.xml"}),
    languages=docx_languages,
)
