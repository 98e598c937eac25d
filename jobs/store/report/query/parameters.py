"""The `:name` parameters of a user's query: which it has, and whether each has a value."""

import re
from collections.abc import Collection, Mapping

from jobs.errors import SpecError

# Where a colon stands in a literal, a quoted name or a comment, it begins no parameter. Each database quotes in its own
# way; `::` is a cast of PostgreSQL.
POSTGRESQL_WORDS = re.compile(
    r"""
      (?P<text>(?<!\w)[eE]'(?:[^'\\]|\\.|'')*' | '(?:[^']|'')*' | "(?:[^"]|"")*"
             | (?<!\w)\$(?P<tag>(?:[A-Za-z_]\w*)?)\$.*?\$(?P=tag)\$ )
    | (?P<comment>--[^\n]* | /\*.*?\*/ )
    | ::
    | (?<!\w):(?P<parameter>[A-Za-z_]\w*)
    | (?P<semicolon>;)
    """,
    re.VERBOSE | re.DOTALL,
)
SQLITE_WORDS = re.compile(
    r"""
      (?P<text>'(?:[^']|'')*' | "(?:[^"]|"")*" | `(?:[^`]|``)*` | \[[^\]]*\] )
    | (?P<comment>--[^\n]* | /\*.*?(?:\*/|\Z) )
    | (?<!\w):(?P<parameter>[A-Za-z_]\w*)
    """,
    re.VERBOSE | re.DOTALL,
)


def parameter_names(sql: str, *, is_sqlite: bool) -> list[str]:
    """The names in a query, in the order in which they first appear."""
    words = SQLITE_WORDS if is_sqlite else POSTGRESQL_WORDS
    return list(dict.fromkeys(match["parameter"] for match in words.finditer(sql) if match["parameter"]))


def require_values(names: Collection[str], values: Mapping[str, str]) -> None:
    """Raise SpecError where a parameter has no value, or a value no parameter."""
    if unknown := sorted(values.keys() - set(names)):
        raise SpecError(f"the query has no parameter :{unknown[0]}")
    if missing := sorted(set(names) - values.keys()):
        raise SpecError(f"the query asks for :{missing[0]}; give its value: -p {missing[0]} VALUE")
