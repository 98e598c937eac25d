"""A condition as SQL: a tree of `jobs.store.where.tree` compiled over the columns of `v_documents`, for each database.

A value is a number, a text or a truth value (true, false). A comparison of two kinds is null, and no error, because a
field may be a number in one line and a text in the next. Both databases choose the same documents, except for numbers
that a double does not hold: PostgreSQL has them exactly. Texts are compared by code points; `like` takes A to Z for a
to z.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime

from sqlalchemy import Boolean, FromClause, Integer, Text, and_, false, func, literal, not_, or_, true

from jobs.errors import SpecError, meant
from jobs.outcome import Flag
from jobs.store.where import tree
from jobs.store.where.fields import Path, field_of
from jobs.store.where.grammar import FUNCTIONS
from jobs.store.where.sql_values import SqlValues
from jobs.store.where.tree import Node, brief
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
    required,
    text_of,
    truth_of,
)

MAX_WEIGHT = 5_000  # columns and constants in the SQL: nested calls multiply them


def compile_condition(
    node: Node, dialect: str, paths: Mapping[tuple[str, ...], tuple[str, ...]], view: FromClause = VIEW
) -> Column:
    """The expression for WHERE, over a view that has the columns of VIEW which the condition names. `paths`: names
    whose field has another path than its dots say. Raises SpecError where the tree is not a condition."""
    return _Compiler(dialect, paths, view).truth(node)


class _Compiler:
    """Compiles a tree for one database, node by node."""

    def __init__(self, dialect: str, paths: Mapping[tuple[str, ...], tuple[str, ...]], view: FromClause) -> None:
        self._dialect = dialect
        self._is_sqlite = dialect == "sqlite"
        self._sql = SqlValues(dialect)
        self._paths = paths
        self._view = view

    def truth(self, node: Node) -> Column:
        """The SQL of a tree that is a condition. Raises SpecError for another tree."""
        return self._truth(node).truth  # type: ignore[return-value]  # _truth: not None

    def _truth(self, node: Node) -> Value:
        value = self._value(node)
        if value.truth is not None:
            return value
        if value.kinds == "null":
            return truth_of(literal(None, Boolean()), value)
        raise SpecError(f"--where: {brief(node)} is {value.kinds}, where a condition is needed; compare it: ... > 0")

    def _number(self, node: Node) -> Value:
        value = self._value(node)
        if value.number is None:
            raise SpecError(f"--where: {brief(node)} is {value.kinds}, where a number is needed")
        return value

    def _text(self, node: Node) -> Value:
        value = self._value(node)
        if value.text is None:
            raise SpecError(f"--where: {brief(node)} is {value.kinds}, where a text is needed")
        return value

    def _value(self, node: Node) -> Value:
        value = self._compiled(node)
        if value.weight > MAX_WEIGHT:
            raise SpecError("--where is too long, or nested too deep; make it shorter")
        return value

    def _compiled(self, node: Node) -> Value:
        match node:
            case tree.Text(value):
                return Value(text=literal(value, Text()), written=value)
            case tree.Number(value, written):
                return self._sql.constant(value, written)
            case tree.Truth(None):
                return Value(is_null=true())
            case tree.Truth(truth_value):
                return Value(truth=literal(truth_value, Boolean()))
            case tree.Name():
                return self._name(node)
            case tree.Call(function, arguments):
                return self._call(function, arguments)
            case tree.Operation(sign, left, right):
                return self._operation(sign, left, right)
            case tree.Negative(operand):
                return self._sql.negative(self._number(operand))
            case tree.Comparison(sign, left, right):
                return self._comparison(sign, left, right)
            case tree.Among(operand, members):
                return self._among(operand, members)
            case tree.Like(operand, pattern):
                return self._sql.like(self._text(operand), pattern)
            case tree.Has(operand, word):
                return self._sql.has_word(self._flags(operand, word), word)
            case tree.Is(operand, what):
                return self._is(operand, what)
            case tree.Not(operand):
                denied = self._truth(operand)
                return truth_of(not_(required(denied.truth)), denied)
            case tree.All(operands):
                values = [self._truth(operand) for operand in operands]
                return truth_of(and_(*(required(value.truth) for value in values)), *values)
            case tree.Any(operands):
                values = [self._truth(operand) for operand in operands]
                return truth_of(or_(*(required(value.truth) for value in values)), *values)
            case tree.Case(cases, otherwise):
                chosen = [(self._truth(when), self._value(then)) for when, then in cases]
                return self._sql.choice(chosen, self._value(otherwise))

    # Leaves

    def _name(self, name: tree.Name) -> Value:
        if not is_column(name):
            return self._json(self._view.c.fields, self._paths.get(name.path, name.path))
        key = name.path[0].lower()
        found: Column = self._view.c[key]
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
        a, b = as_moment(left, a, b), as_moment(right, b, a)
        a, b = as_written(sign, a, b), as_written(sign, b, a)
        by_kind = self._sql.comparisons(sign, a, b)
        if by_kind:
            return truth_of(first_of(by_kind), *[a, b] * len(by_kind))
        if "null" in (a.kinds, b.kinds):
            return truth_of(literal(None, Boolean()), a, b)
        raise SpecError(
            f"--where compares {brief(left)}, {a.kinds}, with {brief(right)}, {b.kinds}; write texts in single quotes"
        )

    def _among(self, operand: Node, members: tuple[Node, ...]) -> Value:
        """`operand in (...)`: a value is compared with the members of its kind; null where there are none."""
        value = self._value(operand)
        texts = [member.value for member in members if isinstance(member, tree.Text)]
        numbers = [member for member in members if isinstance(member, tree.Number)]
        if value.is_text_column:
            texts, numbers = [*texts, *(number.written for number in numbers)], []
        found: list[Column] = []
        if texts and value.text is not None:
            found.append(value.text.in_([literal(text, Text()) for text in texts]))
        if numbers and value.number is not None:
            found.append(
                value.number.in_([self._sql.constant(number.value, number.written).number for number in numbers])
            )
        others = [
            self._comparison("=", operand, member)
            for member in members
            if not isinstance(member, tree.Text | tree.Number)
        ]
        if not found and not others:
            raise SpecError(f"--where looks for {brief(operand)}, {value.kinds}, among values of another kind")
        parts = [*([first_of(found)] if found else []), *(required(other.truth) for other in others)]
        return truth_of(or_(*parts), *[value] * len(found), *others, weight=len(members))

    def _flags(self, operand: Node, word: str) -> Value:
        """The column of the flags; SpecError for another operand of `has`, and for a word that is no flag."""
        if not (isinstance(operand, tree.Name) and is_column(operand) and operand.path[0].lower() == "flags"):
            raise SpecError(f"--where: has looks in the column flags alone; write flags has {brief(tree.Text(word))}")
        if word not in set(Flag):
            near = meant(word, [*Flag])
            raise SpecError(f"--where: there is no flag {brief(tree.Text(word))}{near}; there are {', '.join(Flag)}")
        return self._name(operand)

    def _is(self, operand: Node, what: bool | None) -> Value:
        if what is None:
            value = self._value(operand)
            return truth_of(value.is_null, value, is_null=false())
        value = self._truth(operand)
        holds = required(value.truth) if what else not_(required(value.truth))
        return truth_of(func.coalesce(holds, false()), value, is_null=false())

    # Arithmetic and texts

    def _operation(self, sign: str, left: Node, right: Node) -> Value:
        if sign == "||":
            a, b = self._text(left), self._text(right)
            return text_of(required(a.text).concat(required(b.text)), a, b)
        a, b = self._number(left), self._number(right)
        return self._sql.arithmetic(sign, a, b)

    def _call(self, function: str, arguments: tuple[Node, ...]) -> Value:
        least, most = FUNCTIONS[function]
        if not least <= len(arguments) <= most:
            wanted = str(least) if least == most else f"{least} to {most}"
            raise SpecError(f"--where: {function} takes {wanted} values in its parentheses, not {len(arguments)}")
        first, *more = arguments
        match function:
            case "abs":
                value = self._number(first)
                below = truth_of(required(value.number) < 0, value)
                return self._sql.choice([(below, self._sql.negative(value))], value)
            case "coalesce":
                values = [self._value(argument) for argument in arguments]
                whens = [truth_of(not_(value.is_null), value) for value in values[:-1]]
                return self._sql.choice(list(zip(whens, values, strict=False)), values[-1])
            case "contains":
                value, part = self._text(first), more[0]
                if not isinstance(part, tree.Text):
                    raise SpecError(f"--where: contains looks for a text in single quotes, not for {brief(part)}")
                return self._sql.contains(value, part.value)
            case "nullif":
                return self._sql.choice(
                    [(self._comparison("=", first, more[0]), Value(is_null=true()))], self._value(first)
                )
            case "json_extract":
                name, path = json_path(first, more[0])
                return self._json(self._view.c[name], path)
            case "length":
                value = self._text(first)
                return number_of(func.length(value.text), value, is_integer=True, stored="")
            case "lower" | "upper":
                value = self._text(first)
                made = getattr(func, function)(self._sql.collated(required(value.text)))
                return text_of(made, value)
            case "number":
                value = self._value(first)
                return value if value.text is None else self._sql.parsed_number(value)
            case "round":
                value = self._number(first)
                digits = whole_number(more[0], 0, 15) if more else 0
                return number_of(func.round(self._sql.decimal(value), literal(digits, Integer())), value)
            case "substr":
                value = self._text(first)
                return text_of(
                    func.substr(value.text, *(substr_position(argument, index) for index, argument in enumerate(more))),
                    value,
                )
            case _:
                value, *signs = [self._text(argument) for argument in arguments]
                trim = func.trim if self._is_sqlite else func.btrim
                return text_of(trim(value.text, *(sign.text for sign in signs)), value, *signs)


def as_written(sign: str, a: Value, b: Value) -> Value:
    """The constant `b` for a comparison with `a`: in `id = 5`, where `id` is a text column, the text '5'."""
    if sign in ("=", "<>") and a.is_text_column and b.written is not None and b.number is not None:
        return _text(b.written)
    return b


def _text(written: str) -> Value:
    return Value(text=literal(written, Text()), written=written)


def as_moment(node: Node, a: Value, b: Value) -> Value:
    """The constant `b` for a comparison with `a`: beside `finished_at`, an ISO time (2026-01-31, or
    2026-01-31T10:00+02:00) in the view's own format, in UTC."""
    if not (isinstance(node, tree.Name) and a.is_text_column and node.path[0].lower() == MOMENT):
        return b
    if b.written is None or b.text is None:
        return b
    try:
        moment = datetime.fromisoformat(b.written)
    except ValueError:
        return b
    utc = moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)
    return _text(utc.isoformat(sep=" ", timespec="milliseconds"))


def json_path(document: Node, path: Node) -> tuple[str, Path]:
    """The name of the column and the steps of `json_extract(ranking, '$[0].score')`. Raises SpecError for other
    arguments."""
    if not (isinstance(document, tree.Name) and is_column(document) and document.path[0].lower() in JSONS):
        raise SpecError(f"--where: json_extract takes one of {', '.join(JSONS)}, and a path in single quotes")
    if not isinstance(path, tree.Text) or not _PATH.fullmatch(path.value):
        raise SpecError("--where: json_extract takes a path like '$.meta.lang' or '$[0].score'")
    steps = [
        int(index) if index else quoted or plain for plain, quoted, index in _STEP.findall(path.value.removeprefix("$"))
    ]
    return document.path[0].lower(), tuple(steps)


_STEP = re.compile(r'\.([^\s."\[\]]+)|\."([^"]*)"|\[(\d{1,9})\]')
_PATH = re.compile(rf"\$(?:{_STEP.pattern})+")


def substr_position(node: Node, index: int) -> Column:
    """The `index`th number of `substr(text, 2, 3)`, from 0."""
    return literal(whole_number(node, 0 if index else 1, 2**31 - 1), Integer())


def whole_number(node: Node, least: int, most: int) -> int:
    """The value of a constant; raises SpecError for any other node."""
    if isinstance(node, tree.Number) and node.written.isdigit() and least <= node.value <= most:
        return int(node.value)
    raise SpecError(f"--where: {brief(node)} is where a whole number from {least} to {most} is needed")
