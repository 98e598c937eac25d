"""`kvjobs query --saved` and `--list`."""

import csv
import io

from jobs.store.report.query.saved_queries import saved_queries, with_table
from tests.command_line import Kvjobs
from tests.places import CHECKOUT

PAGE = CHECKOUT / "docs" / "questions.md"


def test_a_saved_query_is_asked_with_its_defaults_and_with_others(kvjobs: Kvjobs, finished_job: int) -> None:
    every = kvjobs("query", "--saved", "least-sure", "--json").json
    some = kvjobs("query", "--saved", "least-sure", "-p", "job", "nightly", "-p", "rows", 2, "--json").json

    assert [row["id"] for row in every] == ["d0", "d1", "d2"]
    assert some == every[:2]


def test_the_list_has_every_question_with_its_sql(kvjobs: Kvjobs) -> None:
    listed = kvjobs("query", "--list", "--json").json
    cells = list(csv.DictReader(io.StringIO(kvjobs("query", "--list", "--csv").out)))

    assert [row["name"] for row in listed] == [row["name"] for row in cells] == list(saved_queries())
    assert all("select" in row["sql"] for row in listed)
    assert "job=last rows=20" in kvjobs("query", "--list").out


def test_a_question_is_asked_in_one_way(kvjobs: Kvjobs) -> None:
    for wrong in ((), ("select 1", "--saved", "phases"), ("--saved", "phases", "--list")):
        result = kvjobs("query", *wrong)
        assert (result.exit_code, result.out) == (2, "")
        assert "Give one of" in result.err


def test_a_question_or_a_job_that_is_not_there_is_exit_code_5(kvjobs: Kvjobs, finished_job: int) -> None:
    assert kvjobs("query", "--saved", "nosuch").exit_code == 5
    assert kvjobs("query", "--saved", "phases", "-p", "job", "nosuch").exit_code == 5
    assert kvjobs("query", "--saved", "phases", "-p", "nosuch", "1").exit_code == 2


def test_the_page_of_questions_lists_those_that_there_are() -> None:
    page = PAGE.read_text(encoding="utf-8")

    assert page == with_table(page), "run: python -m jobs.store.report.query.saved_queries"
