"""Operations on values, in the SQL of one database.

Knows: what the two databases do differently with numbers and texts. Does not know: trees, names.
"""

import operator
import re
import string
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any as Anything

from sqlalchemy import BigInteger, Boolean, Double, Numeric, Text, case, cast, func, literal
from sqlalchemy.sql.elements import Grouping
from sqlalchemy.types import TypeEngine

from jobs.store.where.fields import number_in
from jobs.store.where.values import Column, Value, number_of, required, truth_of


class SqlValues:
    """Operations on values for SQLite or for PostgreSQL, with the same results."""

    def __init__(self, dialect: str) -> None:
        self._dialect = dialect
        self._is_sqlite = dialect == "sqlite"

    def constant(self, value: Decimal, written: str) -> Value:
        """A number that is written in the condition."""
        is_integer = not set(".eE") & set(written) and abs(value) < 2**63
        if is_integer:
            return Value(number=literal(int(value), BigInteger()), written=written, is_integer=True)
        if self._is_sqlite:
            return Value(number=literal(float(value), Double()), written=written)
        return Value(number=literal(value, Numeric()), written=written)

    def comparisons(self, sign: str, a: Value, b: Value) -> list[Column]:
        """One comparison for each kind that both may have."""
        compare = _COMPARE[sign]
        found: list[Column] = []
        if a.number is not None and b.number is not None:
            found.append(compare(*self._comparable(a, b)))
        if a.text is not None and b.text is not None:
            found.append(compare(self.collated(a.text), b.text))
        if a.truth is not None and b.truth is not None:
            found.append(compare(a.truth, b.truth))
        return found

    def like(self, value: Value, pattern: str, escape: str = "") -> Value:
        """`value like pattern`: A to Z and a to z are equal. `escape`: before `%` and `_` that mean themselves."""
        text = required(value.text)
        if self._is_sqlite:
            return truth_of(text.like(pattern, escape=escape or None), value)
        lowered = pattern.translate(_LOWER)
        return truth_of(func.lower(self.collated(text)).like(lowered, escape=escape), value)

    def contains(self, value: Value, part: str) -> Value:
        """Whether a text has this part; A to Z and a to z are equal."""
        return self.like(value, f"%{_WILD.sub(_ESCAPED, part)}%", escape="\\")

    def has_word(self, value: Value, word: str) -> Value:
        """Whether a text of words separated by a space has this one."""
        words = literal(" ", Text()).concat(required(value.text)).concat(" ")
        find = func.instr if self._is_sqlite else func.strpos
        return truth_of(find(words, literal(f" {word} ", Text())) > 0, value)

    def arithmetic(self, sign: str, a: Value, b: Value) -> Value:
        """`a sign b`, of two numbers: + - * / %"""
        is_integer = a.is_integer and b.is_integer
        made = self._in_sqlite(sign, a, b, is_integer) if self._is_sqlite else self._in_decimals(sign, a, b, is_integer)
        return number_of(made, a, b, is_integer=is_integer)

    def negative(self, a: Value) -> Value:
        zero = literal(0, BigInteger())
        number = required(a.number) if self._is_sqlite else self.decimal(a)
        return number_of(Grouping(zero.op("-")(number)), a, is_integer=a.is_integer)

    def choice(self, cases: list[tuple[Value, Value]], otherwise: Value) -> Value:
        """The value of the first case that is true."""
        values = [*(then for _, then in cases), otherwise]

        def chosen(kind: Callable[[Value], Column | None], nothing: TypeEngine[Anything]) -> Column | None:
            if all(kind(value) is None for value in values):
                return None
            nulled = [literal(None, nothing) if (made := kind(value)) is None else made for value in values]
            whens = [when.truth for when, _ in cases]
            return case(*zip(whens, nulled, strict=False), else_=nulled[-1])  # type: ignore[arg-type]

        return Value(
            number=chosen(lambda value: None if value.number is None else self.decimal(value), Numeric()),
            text=chosen(lambda value: value.text, Text()),
            truth=chosen(lambda value: value.truth, Boolean()),
            is_null=required(chosen(lambda value: value.is_null, Boolean())),
            weight=1 + sum(value.weight for value in (*values, *(when for when, _ in cases))),
            is_integer=all(value.is_integer or value.kinds == "null" for value in values),
            stored="numeric",
        )

    def parsed_number(self, value: Value) -> Value:
        """The value's number, or the number that its text says."""
        made = number_in(required(value.text), self._dialect)
        if value.number is not None:
            made = func.coalesce(self.decimal(value), made)
        return number_of(made, value)

    def decimal(self, a: Value) -> Column:
        """The number as numeric. A double is cast through its shortest text: a direct cast keeps 15 of 17 digits."""
        number = required(a.number)
        if self._is_sqlite or a.stored == "numeric":
            return number
        return cast(cast(number, Text()) if a.stored == "double" else number, Numeric())

    def collated(self, text: Column) -> Column:
        """A text that is compared by code points, not by the server's locale."""
        return text if self._is_sqlite else text.collate("C")

    def _comparable(self, a: Value, b: Value) -> tuple[Column, Column]:
        """Both numbers in types that compare exactly. PostgreSQL casts a numeric beside a double to double, and fails
        if it is too large for one."""
        if not self._is_sqlite and {a.stored, b.stored} == {"double", "numeric"}:
            return self.decimal(a), self.decimal(b)
        return required(a.number), required(b.number)

    def _in_sqlite(self, sign: str, a: Value, b: Value, is_integer: bool) -> Column:
        left, right = required(a.number), required(b.number)
        if sign == "/" and not is_integer:
            left = cast(left, Double())
        return Grouping(left.op(sign)(right))

    def _in_decimals(self, sign: str, a: Value, b: Value, is_integer: bool) -> Column:
        """Arithmetic in PostgreSQL's numeric. As in SQLite, a division by zero and infinity minus infinity are null."""
        left, right = self.decimal(a), self.decimal(b)
        if sign == "%":
            left, right = func.trunc(left), func.trunc(right)
        if sign in "/%":
            right = func.nullif(right, 0)
        made: Column = Grouping(left.op(sign)(right))
        if sign == "/" and is_integer:
            made = func.trunc(made)
        return func.nullif(made, cast(literal("NaN", Text()), Numeric()))


_WILD, _ESCAPED = re.compile(r"[\\%_]"), r"\\\g<0>"
_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
_COMPARE: Mapping[str, Callable[[Column, Column], Column]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
