"""The items of a plural in an XML file, one a category of CLDR, and those of another language in their places.

    <item quantity="one">...</item>       of the target language, too: stays, its text is a unit
    <item quantity="other">...</item>     an item of a category that it has beside these is written in front of this one

An item of a category that the target language lacks goes when the language is written.

Knows: categories. Does not know: how a format writes an item.
"""

from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass

from jobs.files.markup.places import Place, Render
from jobs.files.markup.xml_file import NamedPlace, indentation
from jobs.files.markup.xml_tree import XmlText
from jobs.files.plural_table import CATEGORIES, wanted_categories


@dataclass(frozen=True, slots=True)
class Item:
    """What stands in the file for a category, from its first tag to its last one."""

    start: int
    stop: int
    text: NamedPlace  # of its text, named by the plural


def plural_places(
    xml: XmlText,
    items: Mapping[str, Item],
    language: str | None,
    written: Callable[[str, str, str], str],
    kept: Set[str] = frozenset(),
) -> Iterator[NamedPlace | Place]:
    """The places of the texts, and those that the language of the translation fills. `written`: an item of a category
    (the first argument), like that of another one (the second), with a text; `kept`: categories that stay whatever the
    language has."""
    wanted = wanted_categories(items, language) | {each: each for each in items if each in kept}
    for category in sorted({*wanted, *items}, key=_order):
        if category not in wanted:
            item = items[category]
            start = item.start - len(indentation(xml.text, item.start))
            yield Place(start, item.stop, "", _nothing)
        elif category in items:
            found = items[category].text
            yield NamedPlace(f"{found.name}[{category}]", found.place, found.markup, found.max_chars)
        else:
            yield _added(xml, items, category, wanted, written)


def _added(
    xml: XmlText,
    items: Mapping[str, Item],
    category: str,
    wanted: Mapping[str, str],
    written: Callable[[str, str, str], str],
) -> NamedPlace:
    source = items[wanted[category]].text
    # `other` is in every language, and the last.
    at = next(
        items[each].start for each in sorted(wanted, key=_order) if each in items and _order(each) > _order(category)
    )

    def fill(text: str, render: Render) -> str:
        return written(category, wanted[category], text) + indentation(xml.text, at)

    place = Place(at, at, source.place.text, fill, source.place.context)
    return NamedPlace(f"{source.name}[{category}]", place, source.markup, source.max_chars)


def _order(category: str) -> int:
    return CATEGORIES.index(category)


def _nothing(language: str, render: Render) -> str:
    return ""
