"""Where documents of office programs say their language, and what stands there for another one.

Each has three: of Western texts, of Asian ones and of those with complex scripts; a text in Chinese is of the second.

    <w:lang w:val="en-US" w:eastAsia="zh-CN" w:bidi="ar-SA"/>                        .docx: word/styles.xml, the default
    <style:text-properties fo:language="en" fo:country="US" style:language-asian="zh" .../>    .odt: the default style

Styles that name the language of the default, too, follow it; those of other languages stay. `<dc:language>` of the
properties of the document follows it as well.

Knows: attributes. Does not know: paragraphs.
"""

from collections.abc import Iterator, Mapping
from xml.sax.saxutils import escape

from jobs.files.markup.places import Place, Render
from jobs.files.markup.xml_file import with_attribute
from jobs.files.markup.xml_tree import Element, XmlText

_ASIAN = frozenset({"ja", "ko", "yue", "zh"})
_COMPLEX = frozenset(
    ["ar", "as", "bn", "bo", "ckb", "dv", "dz", "fa", "gu", "he", "hi", "km", "kn", "lo", "ml", "mr", "my", "ne", "or",
     "pa", "ps", "sa", "sd", "si", "syr", "ta", "te", "th", "ug", "ur", "yi"]
)  # fmt: skip
_OF_WORD = {"western": "val", "asian": "eastAsia", "complex": "bidi"}
_OF_ODF = {
    "western": ("fo:language", "fo:country"),
    "asian": ("style:language-asian", "style:country-asian"),
    "complex": ("style:language-complex", "style:country-complex"),
}


def docx_languages(parts: Mapping[str, XmlText]) -> Iterator[tuple[str, Place]]:
    """The name of the part and the place, each filled with a language (`de`, `pt-BR`)."""
    styles = parts.get("word/styles.xml")
    if styles is not None:
        elements = [each for each in styles.elements if each.name == "lang"]
        default = next((each for each in elements if _is_in(each, "docDefaults")), None)
        holder = next((each for each in styles.elements if each.name == "rPr" and _is_in(each, "rPrDefault")), None)
        if default is not None:
            for element in elements:
                yield "word/styles.xml", _word_place(styles, element, default)
        elif holder is not None and holder.end > holder.inner:
            yield "word/styles.xml", _new_word_place(holder)
    yield from _of_properties(parts, "docProps/core.xml")


def odt_languages(parts: Mapping[str, XmlText]) -> Iterator[tuple[str, Place]]:
    """The name of the part and the place, each filled with a language (`de`, `pt-BR`)."""
    styles = parts.get("styles.xml")
    default = next(
        (
            each
            for each in (styles.elements if styles is not None else [])
            if each.name == "text-properties"
            and each.parent is not None
            and each.parent.name == "default-style"
            and styles is not None
            and styles.value(each.parent, "style:family") == "paragraph"
        ),
        None,
    )
    if styles is not None and default is not None:
        of_default = {name: styles.value(default, name) for name, _ in _OF_ODF.values()}
        for part in ("styles.xml", "content.xml"):
            xml = parts.get(part)
            for element in xml.elements if xml is not None else []:
                if xml is not None and element.name == "text-properties":
                    yield part, _odf_place(xml, element, of_default, is_default=element is default)
    yield from _of_properties(parts, "meta.xml")


def _kind(language: str) -> str:
    base = language.partition("-")[0].lower()
    return "asian" if base in _ASIAN else "complex" if base in _COMPLEX else "western"


def _word_place(xml: XmlText, element: Element, default: Element) -> Place:
    tag = xml.text[element.start : element.inner]

    def fill(language: str, render: Render) -> str:
        name = f"{element.prefix}{_OF_WORD[_kind(language)]}"
        value = xml.value(element, name.lower())
        follows = value is not None and value == xml.value(default, name.lower())
        return with_attribute(tag, name, language) if element is default or follows else tag

    return Place(element.start, element.inner, "", fill)


def _new_word_place(holder: Element) -> Place:
    def fill(language: str, render: Render) -> str:
        return with_attribute(f"<{holder.prefix}lang/>", f"{holder.prefix}{_OF_WORD[_kind(language)]}", language)

    return Place(holder.end, holder.end, "", fill)


def _odf_place(xml: XmlText, element: Element, of_default: Mapping[str, str | None], *, is_default: bool) -> Place:
    tag = xml.text[element.start : element.inner]

    def fill(language: str, render: Render) -> str:
        name, of_country = _OF_ODF[_kind(language)]
        value = xml.value(element, name)
        if not is_default and (value is None or value != of_default[name]):
            return tag
        base, _, rest = language.partition("-")
        country = next((part for part in rest.split("-") if len(part) == 2), "none")
        return with_attribute(with_attribute(tag, name, base), of_country, country.upper() if rest else country)

    return Place(element.start, element.inner, "", fill)


def _of_properties(parts: Mapping[str, XmlText], name: str) -> Iterator[tuple[str, Place]]:
    xml = parts.get(name)
    for element in xml.elements if xml is not None else []:
        if element.name == "language" and element.end > element.inner:
            yield name, Place(element.inner, element.end, "", lambda language, render: escape(language))


def _is_in(element: Element, name: str) -> bool:
    around = element.parent
    while around is not None and around.name != name:
        around = around.parent
    return around is not None
