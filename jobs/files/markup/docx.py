"""Word's documents: .docx, by paragraphs (ECMA-376 part 1, section 17.3).

A paragraph is a row of runs, each with its format. Neighbours of one format are one; the format that most of the text
has is that of the unit, each other one a pair of marks, and what is no text (a break, a note, a picture, a field) is
one mark. A changed paragraph is written with new runs; proofing marks and the languages of runs go.

    <w:r><w:t>One </w:t></w:r><w:r><w:rPr><w:b/></w:rPr><w:t>bold</w:t></w:r>      "One <1>bold</1>"
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from jobs.files.markup.docx_pieces import Around, Format, Piece, pieces_of
from jobs.files.markup.marked_text import Part, has_words, parts_of
from jobs.files.markup.office_file import OfficeFormat
from jobs.files.markup.office_language import docx_languages
from jobs.files.markup.places import Place, Render
from jobs.files.markup.xml_tree import Element, XmlText


def _place(xml: XmlText, paragraph: Element, name: str) -> Place | None:
    if paragraph.prefix != xml.elements[0].prefix:  # of DrawingML, whose runs are written otherwise
        return None
    children = [child for child in paragraph.children if child.name != "pPr"]
    pieces = list(pieces_of(xml, children))
    with_text = [piece for piece in pieces if piece.text and not piece.text.isspace()]
    if not with_text:
        return None
    first, last = with_text[0].first, max(piece.last for piece in with_text)
    ahead, groups, behind = _apart(_merged([piece for piece in pieces if first <= piece.first and piece.last <= last]))
    most = _most_frequent(groups)
    numbered = [piece for piece in groups if piece.text is None or piece.format != most]
    number_of = {id(piece): number for number, piece in enumerate(numbered, 1)}
    text = "".join(_shown(piece, number_of.get(id(piece))) for piece in groups)
    if not has_words(text):
        return None
    prefix = paragraph.prefix

    def fill(translation: str, render: Render) -> str:
        written = [_mark(prefix, piece, render) for piece in ahead]
        formats = [most]
        lost = {number_of[id(piece)] for piece in numbered if piece.text is None}
        for part, number, characters in parts_of(translation, len(numbered), name):
            piece = numbered[number - 1] if number else None
            if piece is None:
                written.append((formats[-1].around, _run(prefix, formats[-1], _text(prefix, characters))))
            elif piece.text is None and part is not Part.CLOSE:
                written.append(_mark(prefix, piece, render))
                lost.discard(number)
            elif part is Part.OPEN:
                formats.append(piece.format)
            elif part is Part.CLOSE and len(formats) > 1:
                formats.pop()
        rest = [*(numbered[number - 1] for number in sorted(lost)), *behind]
        written += [_mark(prefix, piece, render) for piece in rest]
        return "".join(_joined(written))

    return Place(children[first].start, children[last].stop, text, fill)


def _most_frequent(pieces: Sequence[Piece]) -> Format:
    """The format that most of the text has; one with nothing around it, if there is such text."""
    sizes: Counter[Format] = Counter()
    for piece in pieces:
        if piece.text:
            sizes[piece.format] += len(piece.text)
    return max(sizes, key=lambda each: (each.around is None, sizes[each]), default=Format())


def _merged(pieces: list[Piece]) -> list[Piece]:
    """Neighbours of one format as one."""
    merged: list[list[Piece]] = []
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
        group[0] if len(group) == 1 else replace(group[0], text="".join(each.text or "" for each in group))
        for group in merged
    ]


def _apart(pieces: list[Piece]) -> tuple[list[Piece], list[Piece], list[Piece]]:
    """The marks ahead of all texts, what is between these, the marks behind them."""
    texts = [index for index, piece in enumerate(pieces) if piece.text is not None]
    return pieces[: texts[0]], pieces[texts[0] : texts[-1] + 1], pieces[texts[-1] + 1 :]


def _shown(piece: Piece, number: int | None) -> str:
    if piece.text is None:
        return f"<{number}/>"
    return piece.text if number is None else f"<{number}>{piece.text}</{number}>"


def _text(prefix: str, characters: str) -> str:
    return f'<{prefix}t xml:space="preserve">{characters}</{prefix}t>'


def _mark(prefix: str, piece: Piece, render: Render) -> tuple[Around | None, str]:
    raw = render(piece.start, piece.stop)
    return piece.format.around, _run(prefix, piece.format, raw) if piece.in_run else raw


def _run(prefix: str, look: Format, inside: str) -> str:
    return f"<{prefix}r>{look.properties}{inside}</{prefix}r>"


def _joined(written: Sequence[tuple[Around | None, str]]) -> Iterator[str]:
    """What stands around neighbours is written once."""
    for around, group in groupby(written, key=lambda each: each[0]):
        inside = "".join(raw for _, raw in group)
        yield inside if around is None else f"{around.before}{inside}{around.behind}"


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
