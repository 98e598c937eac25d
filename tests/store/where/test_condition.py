"""Conditions on documents: the chosen rows are compared with a Python reference that evaluates one at a time."""

import json
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobs.store.database import Database
from jobs.store.where.tree import spell
from tests.repetition import times
from tests.store.where.chosen_documents import chosen

NAMES = (
    "n",
    "kind",
    "meta",
    "text",
    "my field",
    'q"u',
    "a.b",
    "$[0]",
    "0",
    "end",
    "größe",
    "x\\y",
    "'; drop table jobs",
)
TEXTS = ("", "a", "A", "b", "é", "10", "2", " 7.5 ", "-1e2", "a%", "a_b", "\\", "\x01", "𝄞", "𐀀", "'; --", "null", ":x")
NUMBERS = ("0", "1", "-1", "2", "2.0", "0.5", "-2.25", "1e2", "9007199254740993", "9223372036854775807")
LONG = (
    "1e400",
    "-1e400",
    "1" * 700,
    "1e-5000",
    "1e999999",
    "-1e999999",
    "0e999999",
    f"0.{'1' * 2000}e5",
    "12345678901234567890",
)


# The reference: a value is None, a Fraction (or an infinite float), a text, a boolean, a list or an object. ----------


@dataclass(frozen=True)
class Term:
    """The text of an expression, and the function that gives its value for a document."""

    source: str
    of: Callable[[dict[str, Any]], Any]


def _kind(value: Any) -> str:
    if value is None or isinstance(value, dict | list):
        return "none"
    return "truth" if isinstance(value, bool) else "text" if isinstance(value, str) else "number"


def _only(kind: str, value: Any) -> Any:
    return value if _kind(value) == kind else None


COMPARE = {
    "=": operator.eq,
    "<>": operator.ne,
    "!=": operator.ne,
    "<": operator.lt,
    ">=": operator.ge,
    ">": operator.gt,
}


def _compare(sign: str, a: Any, b: Any) -> bool | None:
    if _kind(a) != _kind(b) or _kind(a) == "none":
        return None
    return bool(COMPARE[sign](a, b))


def _negate(value: bool | None) -> bool | None:
    return None if value is None else not value


def _all(values: Sequence[bool | None]) -> bool | None:
    return False if False in values else None if None in values else True


def _any(values: Sequence[bool | None]) -> bool | None:
    return True if True in values else None if None in values else False


def _ascii(text: str) -> str:
    return re.sub("[A-Z]+", lambda found: found[0].lower(), text)


def _like(text: str | None, pattern: str) -> bool | None:
    if text is None:
        return None
    signs = "".join({"%": ".*", "_": "."}.get(sign, re.escape(sign)) for sign in _ascii(pattern))
    return re.fullmatch(signs, _ascii(text), re.DOTALL) is not None


def _read(written: str) -> Any:
    """A JSON number as an exact fraction; beyond the range of the databases, infinity or zero."""
    value = Decimal(written)
    if value and value.adjusted() > 350:
        return float("inf") if value > 0 else float("-inf")
    return Fraction(0) if not value or value.adjusted() < -350 else Fraction(value)


def _number_in(text: str) -> Any:
    is_number = re.fullmatch(r"[ \t\n\r]*-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?[ \t\n\r]*", text)
    return _read(text.strip()) if is_number else None


def _null_free(value: Any) -> Any:
    """The value as the databases read it, with U+0000 replaced."""
    if isinstance(value, str):
        return value.replace("\0", "\ufffd")
    if isinstance(value, dict):
        return {_null_free(name): _null_free(one) for name, one in value.items()}
    return [_null_free(one) for one in value] if isinstance(value, list) else value


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


# Documents and conditions at random -----------------------------------------------------------------------------------

scalars = st.sampled_from(
    [*map(json.dumps, TEXTS), *(json.dumps(text, ensure_ascii=False) for text in TEXTS), '"\\u0000"', r'"a\\u0000"']  # noqa: RUF005 - two lines
    + [*NUMBERS, *NUMBERS, "true", "false", "null", "[1]", '{"a": "b"}']
)
nested = st.dictionaries(st.sampled_from(NAMES), scalars, max_size=3)


def _object(members: dict[str, str]) -> str:
    return "{" + ", ".join(f"{json.dumps(name)}: {value}" for name, value in members.items()) + "}"


documents = st.one_of(
    st.none(),
    st.tuples(
        st.dictionaries(st.sampled_from(NAMES), st.one_of(scalars, nested.map(_object)), max_size=6),
        st.sampled_from([{}, *({"long": number} for number in LONG), {"\0": "1"}, {"\x01": '"\\\\"'}]),
        st.sampled_from(["", '"n": "shadowed", ']),  # of two members with one name, the last counts
    ).map(lambda parts: "{" + parts[2] + _object(parts[0] | parts[1])[1:] if parts[0] or parts[1] else "{}"),
)


def _find(path: tuple[str, ...]) -> Callable[[dict[str, Any]], Any]:
    def found(document: dict[str, Any]) -> Any:
        value: Any = document
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        return value

    return found


names = st.sampled_from(NAMES)
field_terms = st.one_of(
    names.map(lambda name: Term(f"fields.{spell(name)}", _find((name,)))),
    st.tuples(names, names).map(lambda path: Term("fields." + ".".join(map(spell, path)), _find(path))),
)
text_literals = st.sampled_from(TEXTS).map(lambda text: Term(_quoted(text), lambda _: text))
number_literals = st.sampled_from(NUMBERS).map(lambda text: Term(text, lambda _: _read(text)))
truth_literals = st.sampled_from([True, False]).map(lambda truth: Term(str(truth).lower(), lambda _: truth))
null_literals = st.just(Term("null", lambda _: None))


def _of_text(term: Term) -> st.SearchStrategy[Term]:
    def made(template: str, do: Callable[[str], Any]) -> Term:
        def of(document: dict[str, Any]) -> Any:
            value = _only("text", term.of(document))
            return None if value is None else do(value)

        return Term(template.format(term.source), of)

    return st.sampled_from(
        [
            made("lower({})", _ascii),
            made("trim({})", lambda text: text.strip(" ")),
            made("substr({}, 2, 1)", lambda text: text[1:2]),
            made("({} || 'x')", lambda text: text + "x"),
        ]
    )


def _of_number(term: Term) -> st.SearchStrategy[Term]:
    def made(template: str, do: Callable[[Any], Any], kind: str = "number") -> Term:
        def of(document: dict[str, Any]) -> Any:
            value = _only(kind, term.of(document))
            return None if value is None else do(value)

        return Term(template.format(term.source), of)

    def small(value: Fraction) -> Any:
        return value if abs(value) < 1000 else None

    small_term = Term(
        f"case when {term.source} between -1000 and 1000 and abs({term.source}) <> 1000 then {term.source} end",
        lambda document: None if (value := _only("number", term.of(document))) is None else small(value),
    )
    small_made = [
        (f"({small_term.source}) + 1", lambda value: value + 1),
        (f"-({small_term.source}) * 3", lambda value: -value * 3),
        (f"({small_term.source}) / 2.0", lambda value: value / 2),
        (f"({small_term.source}) / 0", lambda _: None),
        (f"abs({small_term.source})", abs),
    ]

    def done(source: str, do: Callable[[Any], Any]) -> Term:
        def of(document: dict[str, Any]) -> Any:
            value = small_term.of(document)
            return None if value is None else do(value)

        return Term(source, of)

    return st.sampled_from(
        [
            *(done(source, do) for source, do in small_made),
            made("length({})", lambda text: Fraction(len(text)), "text"),
            Term(f"number({term.source})", lambda document: _as_number(term.of(document))),
        ]
    )


def _as_number(value: Any) -> Any:
    return _number_in(value) if isinstance(value, str) else _only("number", value)


any_terms = st.one_of(
    field_terms,
    field_terms,
    st.tuples(field_terms, st.one_of(text_literals, number_literals)).map(
        lambda pair: Term(
            f"coalesce({pair[0].source}, {pair[1].source})",
            lambda document: pair[1].of(document) if pair[0].of(document) is None else pair[0].of(document),
        )
    ),
)
text_terms = st.one_of(text_literals, field_terms.flatmap(_of_text))
number_terms = st.one_of(number_literals, field_terms.flatmap(_of_number))


def _comparison(parts: tuple[Term, str, Term]) -> Term:
    a, sign, b = parts
    return Term(f"{a.source} {sign} {b.source}", lambda document: _compare(sign, a.of(document), b.of(document)))


def _among(parts: tuple[Term, list[Term]]) -> Term:
    term, members = parts

    def of(document: dict[str, Any]) -> bool | None:
        value = term.of(document)
        same = [member.of({}) for member in members if _kind(member.of({})) == _kind(value)]
        return _any([_compare("=", value, member) for member in same]) if same else None

    return Term(f"{term.source} in ({', '.join(member.source for member in members)})", of)


signs = st.sampled_from(list(COMPARE))
leaves = st.one_of(
    st.tuples(any_terms, signs, st.one_of(any_terms, text_terms, number_terms, truth_literals, null_literals)).map(
        _comparison
    ),
    st.tuples(number_terms, signs, number_terms).map(_comparison),
    st.tuples(text_terms, signs, text_terms).map(_comparison),
    st.tuples(field_terms, st.lists(st.one_of(text_literals, number_literals), min_size=1, max_size=3)).map(_among),
    st.tuples(st.one_of(field_terms, text_terms), st.sampled_from(["%", "a%", "_", "%b", "A_", "%:x", "\\"])).map(
        lambda parts: Term(
            f"{parts[0].source} like {_quoted(parts[1])}",
            lambda document: _like(_only("text", parts[0].of(document)), parts[1]),
        )
    ),
    any_terms.map(lambda term: Term(f"{term.source} is null", lambda document: term.of(document) is None)),
    field_terms.map(lambda term: Term(f"{term.source} is not true", lambda document: term.of(document) is not True)),
    field_terms.map(lambda term: Term(term.source, lambda document: _only("truth", term.of(document)))),
)
conditions = st.recursive(
    leaves,
    lambda inner: st.one_of(
        inner.map(lambda term: Term(f"not ({term.source})", lambda document: _negate(term.of(document)))),
        st.lists(inner, min_size=2, max_size=3).map(
            lambda terms: Term(
                " and ".join(f"({term.source})" for term in terms),
                lambda document: _all([term.of(document) for term in terms]),
            )
        ),
        st.lists(inner, min_size=2, max_size=3).map(
            lambda terms: Term(
                " or ".join(f"({term.source})" for term in terms),
                lambda document: _any([term.of(document) for term in terms]),
            )
        ),
    ),
    max_leaves=4,
)


@given(st.lists(documents, min_size=1, max_size=6), st.lists(conditions, min_size=1, max_size=4))
@settings(max_examples=times(10), suppress_health_check=list(HealthCheck))
def test_both_databases_choose_the_same_documents_as_the_reference(
    database: Database, written: list[str | None], asked: list[Term]
) -> None:
    read = [
        _null_free(json.loads(text, parse_int=_read, parse_float=_read) if text is not None else {}) for text in written
    ]

    for term, found in zip(asked, chosen(database, written, [term.source for term in asked]), strict=True):
        expected = [place for place, document in enumerate(read) if term.of(document) is True]
        assert found == expected, (term.source, written)


def test_every_pair_of_values_compares_as_in_the_reference(database: Database) -> None:
    values = [*map(json.dumps, TEXTS), *NUMBERS, "true", "false", "null", "[1]"]
    pairs = [(a, b) for a in values for b in values]
    written = [f'{{"a": {a}, "b": {b}}}' for a, b in pairs]
    read = [tuple(json.loads(one, parse_int=_read, parse_float=_read) for one in pair) for pair in pairs]

    found = chosen(database, written, [f"a {sign} b" for sign in COMPARE])

    for sign, places in zip(COMPARE, found, strict=True):
        assert places == [place for place, (a, b) in enumerate(read) if _compare(sign, a, b)], sign


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("long > 1", [0, 2, 4, 7, 8]),
        ("long < -1", [1, 5]),
        ("long = 0", [3, 6]),
        ("number('1e400') > 0 and long is not null", list(range(9))),
    ],
)
def test_a_number_of_any_length_breaks_no_query(database: Database, condition: str, expected: list[int]) -> None:
    written = [json.dumps({"long": 0}).replace("0", number) for number in LONG]

    (found,) = chosen(database, written, [condition])

    assert found == expected


def test_postgresql_compares_numbers_exactly_beyond_a_double(postgresql: Database) -> None:
    written = ['{"n": 12345678901234567890123}', '{"n": 12345678901234567890124}', '{"n": 0.1000000000000000000001}']

    found = chosen(postgresql, written, ["n = 12345678901234567890124", "n > 0.1 and n < 1"])

    assert found == [[1], [2]]
