"""A text in whose places other texts are written; all else stays. A place may stand within another one: the `alt` of an
image in a paragraph, a text box anchored in another text.

Knows: positions. Does not know: formats.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from jobs.files.translatable import Unit

Render = Callable[[int, int], str]  # the file's text from one position to another, with what is written within

Fill = Callable[[str, Render], str]  # what is written for another text


@dataclass(frozen=True, slots=True)
class Place:
    """Where a unit stands in the text of a file."""

    start: int
    stop: int
    text: str  # of the unit
    fill: Fill
    context: str | None = None


def numbered(places: Sequence[Place]) -> list[Place]:
    """In the order of the file, an outer one before those within it."""
    return sorted(places, key=lambda place: (place.start, -place.stop))


@dataclass(slots=True)
class _Node:
    place: Place
    text: str | None
    within: "list[_Node]" = field(default_factory=list)


def rewritten(text: str, places: Sequence[Place], texts: Sequence[str | None], *, equal_too: bool = False) -> str:
    """`text` with `texts` in `places`, which stand in the order of `numbered`: each within another one or apart. A text
    that its place has already changes nothing, unless `equal_too`."""
    outermost: list[_Node] = []
    around: list[_Node] = []
    for place, other in zip(places, texts, strict=True):
        while around and around[-1].place.stop <= place.start:
            around.pop()
        node = _Node(place, None if other == place.text and not equal_too else other)
        (around[-1].within if around else outermost).append(node)
        around.append(node)
    return _rendered(text, 0, len(text), outermost)


def _rendered(text: str, start: int, stop: int, nodes: Sequence[_Node]) -> str:
    pieces, at = [], start
    for index in range(bisect_left(nodes, start, key=lambda node: node.place.start), len(nodes)):
        node = nodes[index]
        if node.place.start >= stop:
            break
        pieces += [text[at : node.place.start], _filled(text, node)]
        at = node.place.stop
    return "".join([*pieces, text[at:stop]])


def _filled(text: str, node: _Node) -> str:
    if node.text is None:
        return _rendered(text, node.place.start, node.place.stop, node.within)
    return node.place.fill(node.text, lambda start, stop: _rendered(text, start, stop, node.within))


def units_of(places: Sequence[Place], make: Callable[[str, Place], Unit]) -> list[Unit]:
    """A unit a place, named by its number in the file."""
    return [make(str(number), place) for number, place in enumerate(places, 1)]
