"""`contains`: a part of a text, sign by sign, but for the case of A to Z."""

import pytest
from sqlalchemy import select

from jobs.errors import SpecError
from jobs.store.database import Database
from jobs.store.where.condition import Condition
from jobs.store.where.values import VIEW
from tests.rows import AddJob, Line

TEXTS = ("100 % sure", "100 per cent", "a_b", "aXb", "back\\slash", "It's HERE", "Größe", "GRÖSSE")


@pytest.mark.parametrize(
    ("part", "found"),
    [
        ("100 %", ["100 % sure"]),
        ("A_B", ["a_b"]),
        ("k\\s", ["back\\slash"]),
        ("it''s here", ["It's HERE"]),
        ("größe", ["Größe"]),
        ("ÖSS", ["GRÖSSE"]),
        ("", list(TEXTS)),
    ],
)
def test_it_means_every_sign_but_the_case_of_a_to_z(
    database: Database, add_job: AddJob, part: str, found: list[str]
) -> None:
    job_id = add_job(*(Line(str(number), "x", text=text) for number, text in enumerate(TEXTS)))
    with database.reading() as connection:
        where = Condition.parse(f"contains(text, '{part}')").of_job(connection, job_id)
        clause = where.clause(connection.dialect.name)
        rows = connection.execute(select(VIEW.c.text).where(VIEW.c.job_id == job_id, clause).order_by(VIEW.c.position))

        assert list(rows.scalars()) == found


def test_it_looks_for_a_text_in_single_quotes() -> None:
    with pytest.raises(SpecError, match=r"contains .*single quotes.*translation"):
        Condition.parse("contains(text, translation)")
