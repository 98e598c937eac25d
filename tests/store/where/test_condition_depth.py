"""How deep a condition may be nested: as deep as a worker can evaluate, and no deeper."""

from bisect import bisect

import pytest

from jobs.errors import SpecError
from jobs.store.database import Database
from jobs.store.where.condition import Condition
from tests.store.where.chosen_documents import chosen


@pytest.mark.parametrize(("before", "behind"), [("", " * 1"), ("abs(", ")"), ("coalesce(", ", 1)"), ("not not ", "")])
def test_the_deepest_condition_that_is_accepted_is_evaluated_on_a_deep_stack(
    database: Database, before: str, behind: str
) -> None:
    """As in a worker: a condition that is accepted at submit must not fail when documents are handed on."""
    conditions = [f"{before * depth}n{behind * depth} in (2, '2')" for depth in range(1, 40)]
    number = bisect(conditions, False, key=lambda one: not _is_accepted(one, database.engine.dialect.name))

    def deeper(frames: int) -> list[list[int]]:
        if frames:
            return deeper(frames - 1)
        return chosen(database, ['{"n": 2}', '{"n": 3}'], conditions[number - 1 : number])

    assert deeper(120) == [[0]]


def _is_accepted(condition: str, dialect: str) -> bool:
    try:
        Condition.parse(condition).clause(dialect)
    except SpecError:
        return False
    return True


@pytest.mark.parametrize(
    "condition", ["n" + " * 1" * 90 + " = 2", "abs(n" + " * 1" * 20 + ")" + " + 1" * 20 + " = 3"], ids=["chain", "both"]
)
def test_a_deeper_condition_is_refused(condition: str) -> None:
    with pytest.raises(SpecError, match=r"24 terms|26 levels"):
        Condition.parse(condition)
