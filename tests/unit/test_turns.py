"""Which cases of a test run on which database."""

from types import SimpleNamespace
from typing import Any

from tests.databases import BOTH, MANY_CASES, on_the_other_database


def collected(test: str, cases: int) -> list[Any]:
    return [
        SimpleNamespace(nodeid=f"{test}[{database}-{case}]", callspec=SimpleNamespace(params={"database": database}))
        for case in range(cases)
        for database in BOTH
    ]


def test_of_many_cases_each_runs_on_one_database_and_both_have_a_half() -> None:
    few, many = collected("test_few", MANY_CASES - 1), collected("test_many", 4)

    other = on_the_other_database([SimpleNamespace(nodeid="test_without_cases"), *few, *many])

    assert [item.nodeid for item in many if item not in other] == [
        "test_many[sqlite-0]",
        "test_many[postgresql-1]",
        "test_many[sqlite-2]",
        "test_many[postgresql-3]",
    ]
    assert not [item for item in few if item in other]
