"""The SQL of a condition: a tree of `jobs.store.where.tree` over the columns of `v_documents`, for each database.

A value has a kind: number, text, or truth (true, false). Values of different kinds are neither equal nor unequal: their
comparison is null, as with a null, and no error, because a field may be a number in one line and a text in the next.
The two databases choose the same documents, but for numbers that a double does not hold: PostgreSQL knows them exactly.
Texts are compared by their code points; `like` takes A to Z for a to z.
"""

import operator
import re
import string
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any as Anything

from sqlalchemy import (
    BigInteger,
    Boolean,
    Double,
    Integer,
    Numeric,
    Text,
    and_,
    case,
    cast,
    false,
    func,
    literal,
    not_,
    or_,
    true,
)
from sqlalchemy.sql.elements import Grouping
from sqlalchemy.types import TypeEngine

from jobs.errors import SpecError
from jobs.store.where import tree
from jobs.store.where.fields import Path, field_of, number_in
from jobs.store.where.tree import Node, shown
from jobs.store.where.values import (
    DOUBLES,
    INTEGERS,
    JSONS,
    MOMENT,
    VIEW,
    Column,
    Value,
    first_of,
    is_column,
    number_of,
    text_of,
    there,
    truth_of,
)

HEAVIEST = 5_000  # columns and constants in the SQL: calls within calls multiply them


def compile_condition(node: Node, dialect: str, paths: Mapping[tuple[str, ...], tuple[str, ...]]) -> Column:
    """To stand behind WHERE, over VIEW. `paths` are fields whose way is another than it seems. Raises SpecError for
    what is no condition."""
    return _Compiler(dialect, paths).truth(node)


class _Compiler:
    """Makes SQL of a tree, for one database."""

    def __init__(self, dialect: str, paths: Mapping[tuple[str, ...], tuple[str, ...]]) -> None:
        self._dialect = dialect
        self._is_sqlite = dialect == "sqlite"
        self._paths = paths

    def truth(self, node: Node) -> Column:
        """Of a tree that says true or false; raise SpecError for another."""
        return self._truth(node).truth  # type: ignore[return-value]  # _truth: not None

    def _truth(self, node: Node) -> Value:
        value = self._value(node)
        if value.truth is not None:
            return value
        if value.kinds == "null":
            return truth_of(literal(None, Boolean()), value)
        raise SpecError(f"--where: {shown(node)} is {value.kinds}, where a condition is needed; compare it: ... > 0")

    def _number(self, node: Node) -> Value:
        value = self._value(node)
        if value.number is None:
            raise SpecError(f"--where: {shown(node)} is {value.kinds}, where a number is needed")
        return value

    def _text(self, node: Node) -> Value:
        value = self._value(node)
        if value.text is None:
            raise SpecError(f"--where: {shown(node)} is {value.kinds}, where a text is needed")
        return value

    def _value(self, node: Node) -> Value:
        value = self._compiled(node)
        if value.weight > HEAVIEST:
            raise SpecError("--where is too long, or nested too deep")
        return value

    def _compiled(self, node: Node) -> Value:
        match node:
            case tree.Text(value):
                return Value(text=literal(value, Text()), written=value)
            case tree.Number(value, written):
                return self._constant(value, written)
            case tree.Truth(None):
                return Value(is_null=true())
            case tree.Truth(said):
                return Value(truth=literal(said, Boolean()))
            case tree.Name():
                return self._name(node)
            case tree.Call(function, arguments):
                return self._call(function, arguments)
            case tree.Operation(sign, left, right):
                return self._operation(sign, left, right)
            case tree.Negative(operand):
                return self._negative(self._number(operand))
            case tree.Comparison(sign, left, right):
                return self._comparison(sign, left, right)
            case tree.Among(operand, members):
                return self._among(operand, members)
            case tree.Like(operand, pattern):
                return self._like(self._text(operand), pattern)
            case tree.Is(operand, what):
                return self._is(operand, what)
            case tree.Not(operand):
                denied = self._truth(operand)
                return truth_of(not_(there(denied.truth)), denied)
            case tree.All(operands):
                values = [self._truth(operand) for operand in operands]
                return truth_of(and_(*(there(value.truth) for value in values)), *values)
            case tree.Any(operands):
                values = [self._truth(operand) for operand in operands]
                return truth_of(or_(*(there(value.truth) for value in values)), *values)
            case tree.Choice(cases, otherwise):
                chosen = [(self._truth(when), self._value(then)) for when, then in cases]
                return self._choice(chosen, self._value(otherwise))

    # Leaves

    def _constant(self, value: Decimal, written: str) -> Value:
        is_integer = not set(".eE") & set(written) and abs(value) < 2**63
        if is_integer:
            return Value(number=literal(int(value), BigInteger()), written=written, is_integer=True)
        if self._is_sqlite:
            return Value(number=literal(float(value), Double()), written=written)
        return Value(number=literal(value, Numeric()), written=written)

    def _name(self, name: tree.Name) -> Value:
        if not is_column(name):
            return self._json(VIEW.c.fields, self._paths.get(name.path, name.path))
        key = name.path[0].lower()
        found: Column = VIEW.c[key]
        if key in INTEGERS:
            return Value(number=found, is_null=found.is_(None), is_integer=True)
        if key in DOUBLES:
            return Value(number=found, is_null=found.is_(None), stored="double")
        if key == MOMENT and not self._is_sqlite:
            found = func.to_char(func.timezone("UTC", found), "YYYY-MM-DD HH24:MI:SS.MS")
        return Value(text=found, is_null=found.is_(None), is_text_column=True)

    def _json(self, document: Column, path: Path) -> Value:
        found = field_of(document, path, self._dialect)
        return Value(found.number, found.text, found.truth, found.is_null, stored="numeric")

    # Comparisons

    def _comparison(self, sign: str, left: Node, right: Node) -> Value:
        a, b = self._value(left), self._value(right)
        a, b = _as_moment(left, a, b), _as_moment(right, b, a)
        a, b = _as_written(sign, a, b), _as_written(sign, b, a)
        by_kind = self._by_kind(sign, a, b)
        if by_kind:
            return truth_of(first_of(by_kind), *[a, b] * len(by_kind))
        if "null" in (a.kinds, b.kinds):
            return truth_of(literal(None, Boolean()), a, b)
        raise SpecError(
            f"--where compares {shown(left)}, {a.kinds}, with {shown(right)}, {b.kinds}; a text stands in single quotes"
        )

    def _by_kind(self, sign: str, a: Value, b: Value) -> list[Column]:
        compare = _COMPARE[sign]
        found: list[Column] = []
        if a.number is not None and b.number is not None:
            found.append(compare(*self._met(a, b)))
        if a.text is not None and b.text is not None:
            found.append(compare(self._collated(a.text), b.text))
        if a.truth is not None and b.truth is not None:
            found.append(compare(a.truth, b.truth))
        return found

    def _met(self, a: Value, b: Value) -> tuple[Column, Column]:
        """PostgreSQL would make a double of a numeric beside one, and refuse where none is large enough."""
        if not self._is_sqlite and {a.stored, b.stored} == {"double", "numeric"}:
            return self._decimal(a), self._decimal(b)
        return there(a.number), there(b.number)

    def _collated(self, text: Column) -> Column:
        return text if self._is_sqlite else text.collate("C")

    def _among(self, operand: Node, members: tuple[Node, ...]) -> Value:
        """A value is looked for among those of its kind: null where there is none."""
        value = self._value(operand)
        texts = [member.value for member in members if isinstance(member, tree.Text)]
        numbers = [member for member in members if isinstance(member, tree.Number)]
        if value.is_text_column:
            texts, numbers = [*texts, *(number.written for number in numbers)], []
        found: list[Column] = []
        if texts and value.text is not None:
            found.append(value.text.in_([literal(text, Text()) for text in texts]))
        if numbers and value.number is not None:
            found.append(value.number.in_([self._constant(one.value, one.written).number for one in numbers]))
        others = [
            self._comparison("=", operand, member)
            for member in members
            if not isinstance(member, tree.Text | tree.Number)
        ]
        if not found and not others:
            raise SpecError(f"--where looks for {shown(operand)}, {value.kinds}, among values of another kind")
        parts = [*([first_of(found)] if found else []), *(there(other.truth) for other in others)]
        return truth_of(or_(*parts), *[value] * len(found), *others, weight=len(members))

    def _like(self, value: Value, pattern: str) -> Value:
        text = there(value.text)
        if self._is_sqlite:
            return truth_of(text.like(pattern), value)
        lowered = pattern.translate(_LOWER)
        return truth_of(func.lower(self._collated(text)).like(lowered, escape=""), value)

    def _is(self, operand: Node, what: bool | None) -> Value:
        if what is None:
            value = self._value(operand)
            return truth_of(value.is_null, value, is_null=false())
        value = self._truth(operand)
        holds = there(value.truth) if what else not_(there(value.truth))
        return truth_of(func.coalesce(holds, false()), value, is_null=false())

    # Arithmetic and texts

    def _operation(self, sign: str, left: Node, right: Node) -> Value:
        if sign == "||":
            a, b = self._text(left), self._text(right)
            return text_of(there(a.text).concat(there(b.text)), a, b)
        a, b = self._number(left), self._number(right)
        is_integer = a.is_integer and b.is_integer
        made = self._in_sqlite(sign, a, b, is_integer) if self._is_sqlite else self._in_decimals(sign, a, b, is_integer)
        return number_of(made, a, b, is_integer=is_integer)

    def _in_sqlite(self, sign: str, a: Value, b: Value, is_integer: bool) -> Column:
        left, right = there(a.number), there(b.number)
        if sign == "/" and not is_integer:
            left = cast(left, Double())
        return Grouping(left.op(sign)(right))

    def _in_decimals(self, sign: str, a: Value, b: Value, is_integer: bool) -> Column:
        """What SQLite says of a division by zero, and of infinity less infinity, is null."""
        left, right = self._decimal(a), self._decimal(b)
        if sign == "%":
            left, right = func.trunc(left), func.trunc(right)
        if sign in "/%":
            right = func.nullif(right, 0)
        made: Column = Grouping(left.op(sign)(right))
        if sign == "/" and is_integer:
            made = func.trunc(made)
        return func.nullif(made, cast(literal("NaN", Text()), Numeric()))

    def _negative(self, a: Value) -> Value:
        zero = literal(0, BigInteger())
        number = there(a.number) if self._is_sqlite else self._decimal(a)
        return number_of(Grouping(zero.op("-")(number)), a, is_integer=a.is_integer)

    def _decimal(self, a: Value) -> Column:
        """A double by the fewest digits that say it: its cast to numeric would keep 15 of 17."""
        number = there(a.number)
        if self._is_sqlite or a.stored == "numeric":
            return number
        return cast(cast(number, Text()) if a.stored == "double" else number, Numeric())

    def _choice(self, cases: list[tuple[Value, Value]], otherwise: Value) -> Value:
        values = [*(then for _, then in cases), otherwise]

        def chosen(kind: Callable[[Value], Column | None], nothing: TypeEngine[Anything]) -> Column | None:
            if all(kind(value) is None for value in values):
                return None
            nulled = [literal(None, nothing) if (made := kind(value)) is None else made for value in values]
            whens = [when.truth for when, _ in cases]
            return case(*zip(whens, nulled, strict=False), else_=nulled[-1])  # type: ignore[arg-type]

        return Value(
            number=chosen(lambda value: None if value.number is None else self._decimal(value), Numeric()),
            text=chosen(lambda value: value.text, Text()),
            truth=chosen(lambda value: value.truth, Boolean()),
            is_null=there(chosen(lambda value: value.is_null, Boolean())),
            weight=1 + sum(value.weight for value in (*values, *(when for when, _ in cases))),
            is_integer=all(value.is_integer or value.kinds == "null" for value in values),
            stored="numeric",
        )

    def _call(self, function: str, arguments: tuple[Node, ...]) -> Value:
        least, most = _ARGUMENTS[function]
        if not least <= len(arguments) <= most:
            wanted = str(least) if least == most else f"{least} to {most}"
            raise SpecError(f"--where: {function} takes {wanted} values in its parentheses, not {len(arguments)}")
        first, *more = arguments
        match function:
            case "abs":
                value = self._number(first)
                below = truth_of(there(value.number) < 0, value)
                return self._choice([(below, self._negative(value))], value)
            case "coalesce":
                values = [self._value(argument) for argument in arguments]
                whens = [truth_of(not_(value.is_null), value) for value in values[:-1]]
                return self._choice(list(zip(whens, values, strict=False)), values[-1])
            case "nullif":
                return self._choice(
                    [(self._comparison("=", first, more[0]), Value(is_null=true()))], self._value(first)
                )
            case "json_extract":
                return self._json(*_json_path(first, more[0]))
            case "length":
                value = self._text(first)
                return number_of(func.length(value.text), value, is_integer=True, stored="")
            case "lower" | "upper":
                value = self._text(first)
                made = getattr(func, function)(self._collated(there(value.text)))
                return text_of(made, value)
            case "number":
                value = self._value(first)
                return value if value.text is None else self._number_of(value)
            case "round":
                value = self._number(first)
                digits = _whole(more[0], 0, 15) if more else 0
                return number_of(func.round(self._decimal(value), literal(digits, Integer())), value)
            case "substr":
                value = self._text(first)
                return text_of(
                    func.substr(value.text, *(_position(one, place) for place, one in enumerate(more))), value
                )
            case _:
                value, *signs = [self._text(argument) for argument in arguments]
                trim = func.trim if self._is_sqlite else func.btrim
                return text_of(trim(value.text, *(one.text for one in signs)), value, *signs)

    def _number_of(self, value: Value) -> Value:
        made = number_in(there(value.text), self._dialect)
        if value.number is not None:
            made = func.coalesce(self._decimal(value), made)
        return number_of(made, value)


_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
_COMPARE: Mapping[str, Callable[[Column, Column], Column]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_ARGUMENTS = {
    "abs": (1, 1),
    "coalesce": (1, 20),
    "json_extract": (2, 2),
    "length": (1, 1),
    "lower": (1, 1),
    "nullif": (2, 2),
    "number": (1, 1),
    "round": (1, 2),
    "substr": (2, 3),
    "trim": (1, 2),
    "upper": (1, 1),
}


def _as_written(sign: str, a: Value, b: Value) -> Value:
    """`id = 5`: a column of texts is asked for the text of a number."""
    if sign in ("=", "<>") and a.is_text_column and b.written is not None and b.number is not None:
        return _constant_text(b.written)
    return b


def _constant_text(written: str) -> Value:
    return Value(text=literal(written, Text()), written=written)


def _as_moment(node: Node, a: Value, b: Value) -> Value:
    """The end of a document is compared with a time however that is written: 2026-01-31, or 2026-01-31T10:00+02:00."""
    if not (isinstance(node, tree.Name) and a.is_text_column and node.path[0].lower() == MOMENT):
        return b
    if b.written is None or b.text is None:
        return b
    try:
        moment = datetime.fromisoformat(b.written)
    except ValueError:
        return b
    utc = moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)
    return _constant_text(utc.isoformat(sep=" ", timespec="milliseconds"))


def _json_path(document: Node, path: Node) -> tuple[Column, Path]:
    """Of `json_extract(ranking, '$[0].score')`."""
    if not (isinstance(document, tree.Name) and is_column(document) and document.path[0].lower() in JSONS):
        raise SpecError(f"--where: json_extract takes one of {', '.join(JSONS)}, and a path in single quotes")
    if not isinstance(path, tree.Text) or not _PATH.fullmatch(path.value):
        raise SpecError("--where: json_extract takes a path like '$.meta.lang' or '$[0].score'")
    steps = [
        int(place) if place else quoted or plain for plain, quoted, place in _STEP.findall(path.value.removeprefix("$"))
    ]
    return VIEW.c[document.path[0].lower()], tuple(steps)


_STEP = re.compile(r'\.([^\s."\[\]]+)|\."([^"]*)"|\[(\d{1,9})\]')
_PATH = re.compile(rf"\$(?:{_STEP.pattern})+")


def _position(node: Node, place: int) -> Column:
    """The first and the second number behind the text of `substr`."""
    return literal(_whole(node, 0 if place else 1, 2**31 - 1), Integer())


def _whole(node: Node, least: int, most: int) -> int:
    if isinstance(node, tree.Number) and node.written.isdigit() and least <= node.value <= most:
        return int(node.value)
    raise SpecError(f"--where: {shown(node)} stands where a whole number from {least} to {most} is needed")
