"""OpenDocument texts: .odt, by paragraphs and headings (OpenDocument 1.3, part 3, section 5).

In a paragraph text stands among elements: spans and links are pairs of marks, everything else (a note, a frame, a tab,
a field) is one mark, and a note's own paragraphs are units of their own.
"""

import re
from dataclasses import dataclass, replace

from jobs.files.markup.marked_text import Part, has_words, parts_of
from jobs.files.markup.office_file import OfficeFormat
from jobs.files.markup.office_language import odt_languages
from jobs.files.markup.places import Place, Render
from jobs.files.markup.tags import Kind, xml_tokens
from jobs.files.markup.xml_tree import Element, XmlText

_PAIRS = frozenset({"a", "meta", "span"})


@dataclass(frozen=True, slots=True)
class _Piece:
    part: Part
    start: int  # in the XML
    stop: int
    partner: int = -1  # of a pair, where its first tag starts


def _place(xml: XmlText, paragraph: Element, name: str) -> Place | None:
    pieces = _trimmed(xml.text, _pieces(xml.text, paragraph))
    numbers: dict[int, int] = {}  # by the start of a mark or a pair's first tag
    texts: list[str] = []
    for piece in pieces:
        if piece.part is Part.TEXT:
            texts.append(xml.text[piece.start : piece.stop])
            continue
        number = numbers.setdefault(piece.partner if piece.part is Part.CLOSE else piece.start, len(numbers) + 1)
        form = {Part.OPEN: "<{}>", Part.CLOSE: "</{}>"}.get(piece.part, "<{}/>")
        texts.append(form.format(number))
    text = "".join(texts)
    if not has_words(text):
        return None
    raw = {(piece.part, numbers[_key(piece)]): piece for piece in pieces if piece.part is not Part.TEXT}

    def fill(translation: str, render: Render) -> str:
        written: list[str] = []
        open_pairs: list[int] = []
        lost = {number for part, number in raw if part is Part.MARK}
        for part, number, characters in parts_of(translation, len(numbers), name):
            if part is Part.TEXT:
                written.append(characters)
            elif part is Part.CLOSE and number in open_pairs:
                while open_pairs and (last := open_pairs.pop()):
                    closing = raw[Part.CLOSE, last]
                    written.append(xml.text[closing.start : closing.stop])
                    if last == number:
                        break
            elif (piece := raw.get((part, number))) is not None and part is not Part.CLOSE:
                written.append(render(piece.start, piece.stop))
                lost.discard(number)
                open_pairs += [number] if part is Part.OPEN else []
        for number in reversed(open_pairs):
            closing = raw[Part.CLOSE, number]
            written.append(xml.text[closing.start : closing.stop])
        written += [render(raw[Part.MARK, number].start, raw[Part.MARK, number].stop) for number in sorted(lost)]
        return "".join(written)

    return Place(pieces[0].start, pieces[-1].stop, text, fill)


def _key(piece: _Piece) -> int:
    return piece.partner if piece.part is Part.CLOSE else piece.start


def _pieces(text: str, paragraph: Element) -> list[_Piece]:
    pieces: list[_Piece] = []
    opened: list[int] = []
    depth, start, base = 0, 0, paragraph.inner
    for token in xml_tokens(text[paragraph.inner : paragraph.end]):
        begin, stop = base + token.start, base + token.stop
        is_pair = token.name.rpartition(":")[2] in _PAIRS
        if depth or (token.kind in (Kind.OPEN, Kind.EMPTY) and not (is_pair and token.kind is Kind.OPEN)):
            start = start if depth else begin
            depth += {Kind.OPEN: 1, Kind.CLOSE: -1}.get(token.kind, 0)
            if not depth:
                pieces.append(_Piece(Part.MARK, start, stop))
        elif token.kind is Kind.OPEN:
            opened.append(begin)
            pieces.append(_Piece(Part.OPEN, begin, stop))
        elif token.kind is Kind.CLOSE:
            pieces.append(_Piece(Part.CLOSE, begin, stop, opened.pop()))
        else:
            pieces.append(_Piece(Part.TEXT if token.kind is Kind.TEXT else Part.MARK, begin, stop))
    return pieces


def _trimmed(text: str, pieces: list[_Piece]) -> list[_Piece]:
    """Without marks and blanks at both ends, and without a pair around all."""
    first, last = 0, len(pieces)
    while first < last:
        if _is_edge(text, pieces[first]):
            first += 1
        elif _is_edge(text, pieces[last - 1]):
            last -= 1
        elif pieces[first].part is Part.OPEN and pieces[last - 1].partner == pieces[first].start:
            first, last = first + 1, last - 1
        else:
            break
    pieces = pieces[first:last]
    if pieces and pieces[0].part is Part.TEXT:
        content = text[pieces[0].start : pieces[0].stop]
        pieces[0] = replace(pieces[0], start=pieces[0].stop - len(content.lstrip()))
    if pieces and pieces[-1].part is Part.TEXT:
        content = text[pieces[-1].start : pieces[-1].stop]
        pieces[-1] = replace(pieces[-1], stop=pieces[-1].start + len(content.rstrip()))
    return pieces


def _is_edge(text: str, piece: _Piece) -> bool:
    return piece.part is Part.MARK or (piece.part is Part.TEXT and text[piece.start : piece.stop].isspace())


FORMAT = OfficeFormat(
    name="odt",
    suffixes=(".odt",),
    parts=re.compile(r"(content|styles)\.xml"),
    paragraphs=frozenset({"h", "p"}),
    skipped=frozenset({"tracked-changes"}),
    place=_place,
    says_language=frozenset({"content.xml", "meta.xml", "styles.xml"}),
    languages=odt_languages,
)
