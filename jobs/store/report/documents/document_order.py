"""The orders in which a page lists the documents of a job, and a place in one of them."""

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, TextClause, and_, or_, text

from jobs.errors import SpecError
from jobs.store.schema.result_tables import Generation, Ranking, Score, Translation
from jobs.store.schema.results import ResultTable


class Order(enum.StrEnum):
    """What comes first."""

    POSITION = "position"  # as in the corpus
    WORST = "worst"  # the highest perplexity
    BEST = "best"  # the lowest
    LONGEST = "longest"  # the most tokens
    SHORTEST = "shortest"


@dataclass(frozen=True, slots=True)
class Place:
    """A place in an order: between two documents, or at one."""

    position: int
    value: float | None = None  # what the order sorts by; None: it is that of the corpus

    @classmethod
    def parse(cls, text: str) -> "Place":
        """From `17`, or `2.5:17` in an order by a value. Raises SpecError."""
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
    """What an order by a value sorts by."""

    value: ColumnElement[Any]
    is_there: ColumnElement[bool] | TextClause  # whether a result has it
    descends: bool
    is_indexed: bool

    def beyond(self, place: Place, position: ColumnElement[int], descends: bool) -> ColumnElement[bool]:
        """Whether a result comes after a place. (Not as a comparison of rows, for which PostgreSQL would use no index
        that ends before the position.)"""
        if descends:
            tied = and_(self.value == place.value, position < place.position)
            return and_(self.value <= place.value, or_(self.value < place.value, tied))
        tied = and_(self.value == place.value, position > place.position)
        return and_(self.value >= place.value, or_(self.value > place.value, tied))


def key_of(order: Order, result: ResultTable) -> Key | None:
    """What this order sorts the results by; None for the order of the corpus. Raises SpecError for results that cannot
    be sorted so."""
    if order is Order.POSITION:
        return None
    if order in (Order.LONGEST, Order.SHORTEST):
        if result not in LENGTHS:
            raise SpecError("what a filter keeps has no length to sort by")
        tokens: ColumnElement[Any] = LENGTHS[result].expression
        return Key(tokens, tokens.is_not(None), order is Order.LONGEST, is_indexed=False)
    if result not in MEANS:
        raise SpecError("rankings and filters have no perplexity to sort by")
    total, count = MEANS[result]
    mean = total.op("/")(count)
    # As the conditions of the indexes are written: SQLite uses no such index for a condition with a parameter.
    if result is Score:
        return Key(mean, text("scores.num_tokens > 0"), order is Order.WORST, is_indexed=True)
    has_mean = HAS_MEAN_LOG_PROB if result is Translation else HAS_MEAN_OF_NEW
    return Key(mean, text(has_mean), order is Order.BEST, is_indexed=True)


# The comparison leaves out unknown log-probabilities; with `IS NOT NULL`, SQLite would read them all before the others.
HAS_MEAN_LOG_PROB = (
    "translations.num_target_tokens > 0 AND translations.log_prob / translations.num_target_tokens > -1.7e308"
)
HAS_MEAN_OF_NEW = "generations.num_new_tokens > 0 AND generations.log_prob / generations.num_new_tokens > -1.7e308"

# The tokens of a document that its length is counted in, as in the histogram of lengths.
LENGTHS: Mapping[ResultTable, Any] = {
    Score: Score.num_tokens,
    Translation: Translation.num_source_tokens,
    Ranking: Ranking.num_tokens,
    Generation: Generation.num_prompt_tokens,
}

# A sum of log-probabilities, and the number of its tokens: the perplexity is the exponential of their quotient.
MEANS: Mapping[ResultTable, tuple[Any, Any]] = {
    Score: (Score.nll_sum, Score.num_tokens),
    Translation: (Translation.log_prob, Translation.num_target_tokens),
    Generation: (Generation.log_prob, Generation.num_new_tokens),
}
