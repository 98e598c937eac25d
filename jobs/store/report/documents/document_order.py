"""The orders in which a page lists the documents of a job, and where a page of one begins."""

import enum
import math
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, TextClause, and_, or_, text

from jobs.errors import SpecError
from jobs.store.schema.results import ResultTable
from jobs.tasks.kind import Kind, Mean


class Order(enum.StrEnum):
    """By which documents a list begins."""

    POSITION = "position"  # as in the corpus
    WORST = "worst"  # the highest perplexity
    BEST = "best"  # the lowest
    LONGEST = "longest"  # the most tokens
    SHORTEST = "shortest"


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where a page of an order begins or ends: at a document, or between two documents."""

    position: int
    value: float | None = None  # the sort value of the document there; None in the order of the corpus

    @classmethod
    def parse(cls, text: str) -> "Cursor":
        """Parse `17`, or in an order by a value `2.5:17`. Raises SpecError."""
        value, colon, position = text.rpartition(":")
        try:
            found = cls(int(position), float(value) if colon else None)
        except ValueError:
            raise SpecError(f"{text[:40]!r} is no place in the list of documents") from None
        if abs(found.position) >= 2**53 or not math.isfinite(found.value or 0.0):
            raise SpecError(f"{text[:40]!r} is no place in the list of documents")
        return found

    def __str__(self) -> str:
        return str(self.position) if self.value is None else f"{self.value!r}:{self.position}"


@dataclass(frozen=True, slots=True)
class Key:
    """The SQL expression that an order sorts by, where it is not the order of the corpus."""

    value: ColumnElement[Any]
    is_there: ColumnElement[bool] | TextClause  # whether a result has it
    descends: bool
    is_indexed: bool

    def beyond(self, cursor: Cursor, position: ColumnElement[int], descends: bool) -> ColumnElement[bool]:
        """Whether a result comes after this cursor. (Not as a comparison of rows: PostgreSQL would use no index that
        ends before the position.)"""
        if descends:
            tied = and_(self.value == cursor.value, position < cursor.position)
            return and_(self.value <= cursor.value, or_(self.value < cursor.value, tied))
        tied = and_(self.value == cursor.value, position > cursor.position)
        return and_(self.value >= cursor.value, or_(self.value > cursor.value, tied))


def key_of(order: Order, result: ResultTable) -> Key | None:
    """What this order sorts the results by; None for the order of the corpus. Raises SpecError for results that cannot
    be sorted so."""
    if order is Order.POSITION:
        return None
    if order in (Order.LONGEST, Order.SHORTEST):
        if result.kind.length is None:
            raise SpecError("what a filter keeps has no length to sort by")
        tokens: ColumnElement[Any] = getattr(result, result.kind.length).expression
        return Key(tokens, tokens.is_not(None), order is Order.LONGEST, is_indexed=False)
    mean = result.kind.mean
    if mean is None:
        raise SpecError("rankings and filters have no perplexity to sort by")
    value = getattr(result, mean.total).op("/")(getattr(result, mean.count))
    first = Order.WORST if mean.is_cost else Order.BEST
    return Key(value, text(_has_mean(result.kind, mean)), order is first, is_indexed=True)


def _has_mean(kind: Kind, mean: Mean) -> str:
    """The condition of the index, word for word: SQLite does not use it for a condition with a parameter. The second
    comparison leaves out unknown log-probabilities; with `IS NOT NULL`, SQLite would read them all before the others.
    """
    total, count = f"{kind.table}.{mean.total}", f"{kind.table}.{mean.count}"
    return f"{count} > 0" if mean.is_cost else f"{count} > 0 AND {total} / {count} > -1.7e308"
