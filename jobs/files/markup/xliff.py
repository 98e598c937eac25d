"""XLIFF 1.2 and 2.x: .xlf, .xliff. The unit is a `<source>`, its translation a `<target>`.

http://docs.oasis-open.org/xliff/v1.2/os/xliff-core.html, https://docs.oasis-open.org/xliff/xliff-core/v2.1/.
"""

from collections.abc import Iterator
from html import unescape

from jobs.files.markup.places import Place, Render
from jobs.files.markup.xml_content import content_of
from jobs.files.markup.xml_file import NamedPlace, XmlFile, indentation, language_place, with_attribute
from jobs.files.markup.xml_tree import Element, XmlText, read_xml
from jobs.files.translatable import TranslatableFile

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


def _units(xml: XmlText, *, again: bool) -> Iterator[NamedPlace]:
    kept: set[int] = set()  # elements that are not translated
    for element in xml.elements:
        if element.name in _HOLD_UNITS or element.name == "segment":
            says = xml.value(element, "translate")
            if says == "no" or (says is None and element.parent is not None and id(element.parent) in kept):
                kept.add(id(element))
                continue
            if element.name in ("trans-unit", "segment") and (found := _unit(xml, element, again=again)):
                yield found


def _unit(xml: XmlText, element: Element, *, again: bool) -> NamedPlace | None:
    source, target = element.child("source"), element.child("target")
    if source is None or (target is not None and target.start < source.start):
        return None
    content = content_of(xml.text[source.inner : source.end])
    has_target = target is not None and bool(xml.text[target.inner : target.end].strip())
    if not content.has_words or (has_target and not again):
        return None
    ahead = target or element.child("seg-source") or source  # XLIFF 1.2, 2.3: the target comes behind both
    name = _name(xml, element)

    def fill(text: str, render: Render) -> str:
        """The element with its state, on to the end of the target."""
        is_first_version = element.name == "trans-unit"
        first_tag = xml.text[element.start : element.inner]
        if not is_first_version:
            first_tag = with_attribute(first_tag, "state", "translated")
        elif xml.value(element, "approved") == "yes":
            first_tag = with_attribute(first_tag, "approved", "no")
        tag = f"<{source.prefix}target>" if target is None else xml.text[target.start : target.inner]
        if is_first_version:
            tag = with_attribute(tag, "state", "needs-review-translation")
        tag = tag[:-2].rstrip() + ">" if tag.endswith("/>") else tag
        between = xml.text[element.inner : target.start if target else ahead.stop]
        between += "" if target else indentation(xml.text, source.start)
        return f"{first_tag}{between}{tag}{content.written(text, name)}</{source.prefix}target>"

    return NamedPlace(name, Place(element.start, ahead.stop, content.text, fill, _notes(xml, element)))


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
