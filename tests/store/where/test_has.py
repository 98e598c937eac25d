"""`flags has '...'`: whether a flag is in the list of a result's flags, and nothing else."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from jobs.errors import SpecError
from jobs.outcome import Flag
from jobs.store.database import Database
from jobs.store.where.condition import Condition
from jobs.store.where.values import VIEW
from tests.repetition import times
from tests.rows import Line, insert_job

flags = st.sampled_from(Flag)


@given(st.lists(st.none() | st.sets(flags), min_size=1, max_size=8), flags, flags)
@settings(max_examples=times(15), suppress_health_check=list(HealthCheck))
def test_it_means_that_the_list_of_flags_has_one(
    database: Database, documents: list[set[Flag] | None], a: Flag, b: Flag
) -> None:
    """None: a document without a result, which neither a condition nor its opposite selects."""
    lines = [Line(None) if of is None else Line(None, "x", flags=" ".join(sorted(of))) for of in documents]
    job_id = insert_job(database, lines)

    def chosen(condition: str) -> list[int]:
        with database.reading() as connection:
            clause = Condition.parse(condition).of_job(connection, job_id).clause(connection.dialect.name)
            asked = select(VIEW.c.position).where(VIEW.c.job_id == job_id, clause).order_by(VIEW.c.position)
            return list(connection.execute(asked).scalars())

    done = [(place, of) for place, of in enumerate(documents) if of is not None]
    assert chosen(f"flags has '{a}'") == [place for place, of in done if a in of]
    assert chosen(f"not (flags has '{a}')") == chosen(f"FLAGS not HAS '{a}'") == [p for p, of in done if a not in of]
    assert chosen(f"flags has '{a}' and flags has '{b}'") == [place for place, of in done if {a, b} <= of]
    assert chosen(f"flags has '{a}' or flags has '{b}'") == [place for place, of in done if {a, b} & of]


def test_a_field_may_be_called_has(database: Database) -> None:
    job_id = insert_job(database, [Line("a", "x", fields={"has": 1}), Line("b", "x", fields={"has": 2})])

    with database.reading() as connection:
        clause = Condition.parse("has = 2").of_job(connection, job_id).clause(connection.dialect.name)
        found = connection.execute(select(VIEW.c.id).where(VIEW.c.job_id == job_id, clause)).scalars().all()

    assert found == ["b"]


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("flags has 'number-chnged'", r"number-chnged.*did you mean number-changed"),
        ("status has 'truncated'", r"flags has 'truncated'"),
        ("fields.flags has 'truncated'", r"flags has 'truncated'"),
        ("flags has truncated", r"single quotes"),
        ("flags has", r"single quotes"),
    ],
)
def test_a_word_that_is_no_flag_and_another_operand_are_refused(condition: str, said: str) -> None:
    with pytest.raises(SpecError, match=said):
        Condition.parse(condition)
