"""XLIFF 1.2 and 2.x: .xlf, .xliff. The unit is a `<source>`, its translation a `<target>`.

In XLIFF 1.2 a source may be cut into segments: each `<mrk mtype="seg">` of its `<seg-source>` is a unit, and the target
has the same ones.

http://docs.oasis-open.org/xliff/v1.2/os/xliff-core.html, https://docs.oasis-open.org/xliff/xliff-core/v2.1/.
"""

import re
from collections.abc import Iterator, Sequence
from html import unescape

from jobs.files.markup.places import Place, Render
from jobs.files.markup.xml_content import content_of
from jobs.files.markup.xml_file import NamedPlace, SharedPlace, XmlFile, indentation, language_place, with_attribute
from jobs.files.markup.xml_tree import Element, XmlText, read_xml
from jobs.files.translatable import TranslatableFile

_SUB_STATE = re.compile(r"\s+subState\s*=\s*(?:\"[^\"]*\"|'[^']*')")
_DIGITS = 9  # of the longest length that is read
_HOLD_UNITS = frozenset({"file", "group", "unit", "trans-unit", "body"})


class Xliff:
    """The format."""

    name = "xliff"
    suffixes: tuple[str, ...] = (".xlf", ".xliff")

    def read(self, content: bytes, *, again: bool = False, target_language: str | None = None) -> TranslatableFile:
        """The sources that have no target, or all `again`. Raises CorpusError for a file that is no XML."""
        xml = read_xml(content)
        return XmlFile(xml, list(_units(xml, again=again)), list(_languages(xml)))


FORMAT = Xliff()


def _units(xml: XmlText, *, again: bool) -> Iterator[NamedPlace | SharedPlace]:
    kept: set[int] = set()  # elements that are not translated
    for element in xml.elements:
        if element.name in _HOLD_UNITS or element.name == "segment":
            says = xml.value(element, "translate")
            if says == "no" or (says is None and element.parent is not None and id(element.parent) in kept):
                kept.add(id(element))
                continue
            if element.name in ("trans-unit", "segment") and (found := _unit(xml, element, again=again)):
                yield found


def _unit(xml: XmlText, element: Element, *, again: bool) -> NamedPlace | SharedPlace | None:
    source, target = element.child("source"), element.child("target")
    if source is None or (target is not None and target.start < source.start):
        return None
    segmented = element.child("seg-source")
    if segmented is not None and element.name == "trans-unit" and (segments := _segments(xml, segmented)):
        return _segmented(xml, element, segmented, segments, again=again)
    content = content_of(xml.text[source.inner : source.end])
    has_target = target is not None and bool(xml.text[target.inner : target.end].strip())
    if not content.has_words or (has_target and not again):
        return None
    name = _name(xml, element)

    def fill(text: str, render: Render) -> str:
        return _written(xml, element, content.written(text, name))

    stop = (target or segmented or source).stop
    place = Place(element.start, stop, content.text, fill, _notes(xml, element))
    return NamedPlace(name, place, max_chars=_max_chars(xml, element))


def _max_chars(xml: XmlText, element: Element) -> int | None:
    """What the file says of the length of a unit's translation, where it counts characters: by default XLIFF 1.2 counts
    pixels, and 2.x nothing (5.7, Size and Length Restriction)."""
    if element.name == "segment":
        return _restriction(xml, element)
    width = xml.value(element, "maxwidth") or ""
    if xml.value(element, "size-unit") != "char" or not width.isascii() or not width.isdecimal():
        return None
    return int(width[:_DIGITS]) or None


def _restriction(xml: XmlText, segment: Element) -> int | None:
    """The `sizeRestriction` of the unit of a segment that is its only one, in code points: `30`, or `2,30`."""
    unit = segment.parent
    if unit is None or sum(each.name == "segment" for each in unit.children) > 1:
        return None
    around: Element | None = unit
    while around is not None and around.name != "file":
        around = around.parent
    profiles = around.child("profiles") if around is not None else None
    if profiles is None or xml.value(profiles, "generalprofile") != "xliff:codepoints":
        return None
    most = (xml.value(unit, f"{profiles.prefix or 'slr:'}sizerestriction") or "").rpartition(",")[2].strip()
    return int(most[:_DIGITS]) or None if most.isascii() and most.isdecimal() else None


def _segmented(
    xml: XmlText, element: Element, segmented: Element, segments: dict[str, Element], *, again: bool
) -> SharedPlace | None:
    """Those segments of a unit that have no translation, or all `again`."""
    target, name, notes = element.child("target"), _name(xml, element), _notes(xml, element)
    there = _segments(xml, target) if target is not None else {}
    is_empty = target is None or not xml.text[target.inner : target.end].strip()
    if set(there) != set(segments):
        if not is_empty and not again:
            return None
        there = {}
    contents = {mid: content_of(xml.text[each.inner : each.end]) for mid, each in segments.items()}
    asked = [
        mid
        for mid, content in contents.items()
        if content.has_words and (again or mid not in there or not _text_of(xml, there[mid]).strip())
    ]
    named = [
        NamedPlace(f"{name}/{mid}", Place(segments[mid].inner, segments[mid].end, contents[mid].text, _no_fill, notes))
        for mid in asked
    ]

    def fill(texts: Sequence[str | None]) -> str:
        of_asked = dict(zip(asked, texts, strict=True))
        around, parts = (target, there) if target is not None and there else (segmented, segments)
        pieces, at = [], around.inner
        for mid, part in parts.items():
            text = of_asked.get(mid)
            if text is not None:
                inside = contents[mid].written(text, name)
            elif there:
                inside = _text_of(xml, part)
            else:  # of no translation: empty, unless there is nothing to translate
                inside = "" if contents[mid].has_words else _text_of(xml, part)
            first_tag = xml.text[part.start : part.inner]
            opening = first_tag[:-2].rstrip() + ">" if first_tag.endswith("/>") else first_tag
            pieces += [xml.text[at : part.start], opening, inside, f"</{part.prefix}{part.name}>"]
            at = part.stop
        return _written(xml, element, "".join([*pieces, xml.text[at : around.end]]))

    return SharedPlace(element.start, (target or segmented).stop, named, fill) if named else None


def _segments(xml: XmlText, around: Element) -> dict[str, Element]:
    """The segments of an element by their `mid`, in its order; none where one has no such, or two have the same."""
    found: list[tuple[str | None, Element]] = []
    inside = list(reversed(around.children))
    while inside:
        element = inside.pop()
        if element.name == "mrk" and xml.value(element, "mtype") == "seg":
            found.append((xml.value(element, "mid"), element))
        else:
            inside += reversed(element.children)
    by_mid = {mid: element for mid, element in found if mid}
    return by_mid if len(by_mid) == len(found) else {}


def _text_of(xml: XmlText, element: Element) -> str:
    return xml.text[element.inner : element.end]


def _no_fill(text: str, render: Render) -> str:
    raise AssertionError("a segment is written with its unit")


def _written(xml: XmlText, element: Element, content: str) -> str:
    """A unit with its state, on to the end of a target with this content."""
    source, target = element.child("source"), element.child("target")
    assert source is not None
    is_first_version = element.name == "trans-unit"
    first_tag = xml.text[element.start : element.inner]
    if not is_first_version:
        # The sub-state would be that of another state (XLIFF 2.1, 4.3.1.28).
        first_tag = _SUB_STATE.sub("", with_attribute(first_tag, "state", "translated"))
    elif xml.value(element, "approved") == "yes":
        first_tag = with_attribute(first_tag, "approved", "no")
    tag = f"<{source.prefix}target>" if target is None else xml.text[target.start : target.inner]
    if is_first_version:
        tag = with_attribute(tag, "state", "needs-review-translation")
    tag = tag[:-2].rstrip() + ">" if tag.endswith("/>") else tag
    ahead = element.child("seg-source") or source  # XLIFF 1.2, 2.3: the target comes behind both
    between = xml.text[element.inner : target.start if target else ahead.stop]
    between += "" if target else indentation(xml.text, source.start)
    return f"{first_tag}{between}{tag}{content}</{source.prefix}target>"


def _name(xml: XmlText, element: Element) -> str:
    """The id of a trans-unit; of a segment, its unit's id and its own."""
    around = element.parent if element.name == "segment" else None
    ids = [xml.value(each, "id") for each in (around, element) if each is not None]
    return "/".join(filter(None, ids))


def _notes(xml: XmlText, element: Element) -> str | None:
    holder = element.parent if element.name == "segment" and element.parent is not None else element
    notes = [*holder.children, *(notes.children if (notes := holder.child("notes")) else [])]
    texts = [unescape(content_of(xml.text[each.inner : each.end]).text) for each in notes if each.name == "note"]
    return "\n".join(filter(None, texts)) or None


def _languages(xml: XmlText) -> Iterator[Place]:
    is_second_version = any(each.name == "xliff" and xml.attribute(each, "srclang") for each in xml.elements[:1])
    for element in xml.elements[:1] if is_second_version else xml.elements:
        if is_second_version or element.name == "file":
            yield language_place(xml, element, "trgLang" if is_second_version else "target-language")
