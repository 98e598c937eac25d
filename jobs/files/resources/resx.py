"""Resources of .NET: .resx, by their `<data>` elements.

    <data name="Open" xml:space="preserve">
      <value>Open {0}</value>                   the unit `Open`
      <comment>Of a button</comment>            its context
    </data>

Those with a type (pictures, sizes, file references) are no texts, and those whose name begins with >> are of designers.
https://learn.microsoft.com/dotnet/core/extensions/create-resource-files
"""

from html import unescape

from jobs.errors import CorpusError
from jobs.files.keyed_units import markup_of
from jobs.files.markup.places import Place, Render
from jobs.files.markup.plain_content import plain_content_of
from jobs.files.markup.xml_file import NamedPlace, XmlFile
from jobs.files.markup.xml_tree import Element, XmlText, read_xml
from jobs.files.translatable import TranslatableFile
from jobs.files.words import has_word


class Resx:
    """The format."""

    name = "resx"
    suffixes: tuple[str, ...] = (".resx", ".resw")

    def read(self, content: bytes, *, again: bool = False, target_language: str | None = None) -> TranslatableFile:
        """The strings that have a word. Raises CorpusError for a file that is no XML, or whose root is another."""
        xml = read_xml(content)
        root = xml.elements[0]
        if root.name != "root":
            raise CorpusError(f"its root is <{root.prefix}{root.name}>, and that of resources of .NET is <root>")
        places = (_place(xml, element) for element in root.children if element.name == "data")
        return XmlFile(xml, [place for place in places if place is not None], [])


FORMAT = Resx()


def _place(xml: XmlText, data: Element) -> NamedPlace | None:
    value, name = data.child("value"), xml.value(data, "name") or ""
    is_text = xml.attribute(data, "type") is None and xml.attribute(data, "mimetype") is None
    if value is None or not is_text or name.startswith((">>", "&gt;&gt;")):
        return None
    content = plain_content_of(xml.text[value.inner : value.end])
    if content is None or not has_word(content.text):
        return None

    def fill(text: str, render: Render) -> str:
        return content.written(text, name)

    comment = data.child("comment")
    about = unescape(xml.text[comment.inner : comment.end]).strip() or None if comment is not None else None
    place = Place(value.inner, value.end, content.text, fill, about)
    return NamedPlace(unescape(name), place, markup_of(content.text))
