"""The syntax tree of a condition.

Knows: words and operators. Does not know: which names exist, databases.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from decimal import Decimal

# Reserved: a name that is one of these is written in double quotes.
WORDS = frozenset(
    ("and", "or", "not", "is", "null", "true", "false", "in", "between", "like", "case", "when", "then", "else", "end")
)


@dataclass(frozen=True, slots=True)
class Text:
    value: str


@dataclass(frozen=True, slots=True)
class Number:
    value: Decimal
    written: str


@dataclass(frozen=True, slots=True)
class Truth:
    value: bool | None  # None: null


@dataclass(frozen=True, slots=True)
class Name:
    """A column, or a field by its path from the outermost object."""

    path: tuple[str, ...]
    is_field: bool = False  # written with the prefix `fields.`
    is_quoted: bool = False  # written in double quotes

    @property
    def written(self) -> str:
        return ".".join(map(spell, self.path))


@dataclass(frozen=True, slots=True)
class Call:
    function: str
    arguments: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Operation:
    """Arithmetic, or the concatenation of texts."""

    sign: str
    left: "Node"
    right: "Node"


@dataclass(frozen=True, slots=True)
class Negative:
    operand: "Node"


@dataclass(frozen=True, slots=True)
class Comparison:
    sign: str
    left: "Node"
    right: "Node"


@dataclass(frozen=True, slots=True)
class Among:
    operand: "Node"
    members: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Like:
    operand: "Node"
    pattern: str


@dataclass(frozen=True, slots=True)
class Has:
    """Whether a list of words has this one."""

    operand: "Node"
    word: str


@dataclass(frozen=True, slots=True)
class Is:
    operand: "Node"
    what: bool | None


@dataclass(frozen=True, slots=True)
class Not:
    operand: "Node"


@dataclass(frozen=True, slots=True)
class All:
    operands: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Any:
    operands: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Case:
    """The value of the first case that holds."""

    cases: "tuple[tuple[Node, Node], ...]"
    otherwise: "Node"


Node = (Text | Number | Truth | Name | Call | Operation | Negative) | (
    Comparison | Among | Like | Has | Is | Not | All | Any | Case
)


def names_in(tree: Node) -> Iterator[Name]:
    """All names in a tree, from left to right."""
    if isinstance(tree, Name):
        yield tree
    for part in parts_of(tree):
        yield from names_in(part)


def parts_of(tree: Node) -> Iterator[Node]:
    """The nodes right below one, from left to right."""
    for field in fields(tree):
        yield from _nodes(getattr(tree, field.name))


def _nodes(value: object) -> Iterator[Node]:
    if isinstance(value, tuple):
        for member in value:
            yield from _nodes(member)
    elif isinstance(value, Node):
        yield value


def spell(name: str) -> str:
    """One part of a name as it is written in a condition."""
    is_plain = re.fullmatch(r"[^\W\d]\w*", name) and name.lower() not in WORDS
    return name if is_plain else '"' + name.replace('"', '""') + '"'


def brief(node: Node) -> str:
    """The node in a few characters, for a message."""
    match node:
        case Name():
            return node.written
        case Text(value):
            return "'" + (value if len(value) < 40 else value[:39] + "…") + "'"
        case Number():
            return node.written
        case Call(function):
            return f"{function}(...)"
        case _:
            return "an expression"
