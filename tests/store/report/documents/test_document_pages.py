"""Pages of documents: each document once, in both directions, and never more looked at than the time allows."""

import random
from typing import Any

import pytest
from sqlalchemy import event

from jobs.errors import SpecError
from jobs.outcome import Score
from jobs.store.database import Database
from jobs.store.report.documents import document_pages
from jobs.store.report.documents.document_order import Cursor, Order
from jobs.store.report.documents.document_pages import Selection, read_page, sortable
from jobs.store.report.job_summary import find_job
from jobs.store.schema.states import DocumentStatus
from jobs.store.where.condition import Condition
from jobs.tasks.score import ScoreOptions
from jobs.tasks.task import Task
from tests.databases import ON_SQLITE
from tests.rows import AddJob, Line

NUMBER = 60


@pytest.fixture
def translated(add_job: AddJob) -> int:
    """Documents of equal and of different quality; every seventh has failed."""
    chance = random.Random(7)
    return add_job(*(_line(number, chance.choice([-1.5, -3.0, -10.25])) for number in range(NUMBER)))


def _line(number: int, log_prob: float) -> Line:
    if number % 7 == 3:
        return Line(f"d{number}", status=DocumentStatus.FAILED, error=("engine-error", "it broke"))
    kind = "even" if number % 2 == 0 else "odd"
    return Line(f"d{number}", f"译文{number}", text=f"text {number}", log_prob=log_prob, fields={"kind": kind})


def positions(
    database: Database, job_id: int, selection: Selection, size: int, *, backward: bool = False, budget_s: float = 1.0
) -> list[int]:
    """All documents, page by page; backward pages are put in front of those before."""
    found: list[int] = []
    place: Cursor | None = None
    while True:
        with database.reading() as connection:
            job = find_job(connection, str(job_id))
            page = read_page(
                connection,
                job,
                selection,
                cursor=place,
                backward=backward,
                num_documents=size,
                budget_s=budget_s,
            )
        here = [one.position for one in page.documents]
        found = [*here, *found] if backward else [*found, *here]
        place = page.stopped or (page.before if backward else page.after)
        if place is None:
            return found


def condition(database: Database, job_id: int, source: str) -> Condition:
    with database.reading() as connection:
        return Condition.parse(source).of_job(connection, job_id)


@pytest.mark.parametrize(
    ("order", "size"),
    [*((order, size) for order in Order for size in (7, NUMBER)), (Order.POSITION, 1), (Order.WORST, 1)],
)
def test_pages_hold_each_document_once_and_are_the_same_from_both_ends(
    database: Database, translated: int, order: Order, size: int
) -> None:
    whole = positions(database, translated, Selection(order=order), 1000)

    forward = positions(database, translated, Selection(order=order), size)
    backward = positions(database, translated, Selection(order=order), size, backward=True)

    has_result = [number for number in range(NUMBER) if order is Order.POSITION or number % 7 != 3]
    assert forward == backward == whole
    assert sorted(whole) == has_result


def test_the_worst_come_first_or_last(database: Database, add_job: AddJob) -> None:
    job_id = add_job(*(Line(str(number), "x", log_prob=-number) for number in (3, 1, 2)))

    assert positions(database, job_id, Selection(order=Order.WORST), 2) == [0, 2, 1]
    assert positions(database, job_id, Selection(order=Order.BEST), 2) == [1, 2, 0]


def test_scores_are_sorted_by_perplexity_and_by_tokens(database: Database, add_job: AddJob) -> None:
    scores = [Score(nll_sum=10.0, num_tokens=5, num_words=1, num_bytes=1), Score(9.0, 3, 1, 1), Score(0.0, 0, 1, 1)]
    lines = [Line(str(number), result=score) for number, score in enumerate(scores)]
    job_id = add_job(*lines, task=Task.SCORE, options=ScoreOptions())

    assert positions(database, job_id, Selection(order=Order.WORST), 9) == [1, 0]
    assert positions(database, job_id, Selection(order=Order.LONGEST), 9) == [0, 1, 2]


@pytest.mark.parametrize("order", [Order.POSITION, Order.WORST, Order.SHORTEST])
@pytest.mark.parametrize("source", ["kind = 'even' and contains(translation, '1')", "status = 'failed'", "line > 9000"])
def test_a_condition_chooses_the_same_documents_whatever_the_pages_and_the_time(
    database: Database, translated: int, order: Order, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = Selection(order=order, condition=condition(database, translated, source))
    wanted = positions(database, translated, chosen, 1000)

    monkeypatch.setattr(document_pages, "FIRST_WINDOW", 3)
    assert positions(database, translated, chosen, 2, budget_s=0.0) == wanted
    assert positions(database, translated, chosen, 2, budget_s=0.0, backward=True) == wanted


def test_a_search_that_finds_nothing_in_time_says_where_it_stopped(
    database: Database, translated: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(document_pages, "FIRST_WINDOW", 10)
    chosen = Selection(condition=condition(database, translated, "id = 'd55'"))

    with database.reading() as connection:
        page = read_page(connection, find_job(connection, str(translated)), chosen, budget_s=0.0)

    assert (page.documents, page.stopped, page.num_looked) == ([], Cursor(9), 10)


def test_documents_of_a_rare_status_are_found_by_the_index_at_once(
    database: Database, translated: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(document_pages, "FIRST_WINDOW", 1)
    source = "status = 'failed' and error_code = 'engine-error' and line > 20"
    chosen = Selection(condition=condition(database, translated, source), status="failed", error_code="engine-error")

    found = positions(database, translated, chosen, 3, budget_s=0.0)
    monkeypatch.setattr(document_pages, "MAX_BY_STATUS", 2)

    assert found == [number for number in range(20, NUMBER) if number % 7 == 3]
    assert positions(database, translated, chosen, 3, budget_s=0.0) == found


@ON_SQLITE
def test_documents_of_a_status_are_not_looked_for_among_all_others(database: Database, translated: int) -> None:
    """Without statistics, SQLite would rather walk the key, past all documents of the job."""
    chosen = Selection(condition=condition(database, translated, "status = 'failed'"), status="failed")
    calls: list[tuple[str, Any]] = []
    event.listen(database.engine, "before_cursor_execute", lambda *call: calls.append((call[2], call[3])))
    positions(database, translated, chosen, 5)
    statements = {
        statement: values
        for statement, values in calls
        if "WHERE documents.job_id" in statement and "documents.status =" in statement
    }

    assert any("ORDER BY" in statement for statement in statements)
    with database.reading() as connection:
        for statement, values in statements.items():
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values).all()
            assert any("job_id=? AND status=?" in step[-1] for step in plan), statement


def test_a_large_job_is_sorted_only_where_an_index_is(
    database: Database, translated: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(document_pages, "MAX_SORTED", NUMBER - 1)
    with database.reading() as connection:
        job = find_job(connection, str(translated))

        assert Order.LONGEST not in sortable(job)
        with pytest.raises(SpecError, match=r"60 documents.*up to 59"):
            read_page(connection, job, Selection(order=Order.LONGEST))


def test_an_excerpt_begins_shortly_before_what_was_searched_for(database: Database, add_job: AddJob) -> None:
    job_id = add_job(Line("long", "x", text=f"{'é' * 5000}Needle{'b' * 5000}"))
    with database.reading() as connection:
        page = read_page(connection, find_job(connection, str(job_id)), Selection(search="nEEdle"))

    source = page.documents[0].source
    assert source is not None
    assert source.text.startswith("é" * 90 + "Needle")
    assert (source.start, source.length, source.is_whole) == (4910, 10006, False)
