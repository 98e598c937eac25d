"""Documents of two jobs side by side, on both databases."""

import json

import pytest
from sqlalchemy import event, update

from jobs.corpus.corpus import Corpus
from jobs.errors import SpecError
from jobs.store.database import Database
from jobs.store.report.documents.matched_documents import (
    LARGEST_PAGE,
    Matched,
    MatchedBy,
    find_matching,
    matched_pages,
    read_details,
)
from jobs.store.report.job_summary import JobSummary, find_job
from jobs.store.schema import tables
from jobs.store.schema.states import DocumentStatus
from tests.databases import ON_SQLITE
from tests.rows import AddJob, Line

FAILED = Line("f", status=DocumentStatus.FAILED, error=("engine-error", "it broke"))
UNREADABLE = Line(None, status=DocumentStatus.REJECTED, text=None, error=("bad-json", "not JSON"))


def jobs_of(database: Database, *job_ids: int) -> list[JobSummary]:
    with database.reading() as connection:
        return [find_job(connection, str(job_id)) for job_id in job_ids]


def matched(
    database: Database, a: int, b: int, reference: str | None = None, largest_page: int = LARGEST_PAGE
) -> list[Matched]:
    first, second = jobs_of(database, a, b)
    with database.reading() as connection:
        how = find_matching(connection, first, second, reference)
    return [one for page in matched_pages(database, first, second, how, largest_page) for one in page]


def without_ids(database: Database, job_id: int) -> None:
    with database.writing() as connection:
        of_job = update(tables.Document).where(tables.Document.job_id == job_id)
        connection.execute(of_job.values(unnamed=True))


def test_documents_are_matched_by_id_wherever_they_stand(database: Database, add_job: AddJob) -> None:
    a = add_job(Line("x", "1"), Line("y", "2"), FAILED, UNREADABLE, Line("only a", "3"), Line("z"))
    b = add_job(Line("z", "6"), Line("f", "5"), Line("y", "4"), Line("x"), Line("only b", "7"), UNREADABLE)

    found = [
        (one.id, one.position, one.other_position, one.a and one.a[0], one.b and one.b[0])
        for one in matched(database, a, b)
    ]
    assert found == [
        ("x", 0, 3, "1", None),
        ("y", 1, 2, "2", "4"),
        ("f", 2, 1, None, "5"),
        (None, 3, None, None, None),
        ("only a", 4, None, "3", None),
        ("z", 5, 0, None, "6"),
    ]


def test_documents_are_matched_by_position_where_neither_corpus_has_ids(database: Database, add_job: AddJob) -> None:
    a = add_job(Line("1", "a"), Line("2", "b"))
    b = add_job(Line("2", "c"), Line("3", "d"), Line("4", "e"))
    without_ids(database, a)
    without_ids(database, b)

    assert [(one.position, one.other_position) for one in matched(database, a, b)] == [(0, 0), (1, 1)]


def test_a_corpus_with_ids_and_one_without_are_refused(database: Database, add_job: AddJob) -> None:
    a, b = add_job(Line("1", "a")), add_job(Line("1", "b"))
    without_ids(database, b)

    for pair in ((a, b), (b, a)):
        with pytest.raises(SpecError, match=f"job {a} .*ids.*job {b} .*none"):
            matched(database, *pair)


@pytest.mark.parametrize("largest_page", [1, 2, 3, 1000])
def test_pages_of_any_size_hold_the_same_documents(database: Database, add_job: AddJob, largest_page: int) -> None:
    lines = [Line(f"d{number}", str(number)) for number in range(7)]
    a, b = add_job(*lines), add_job(*reversed(lines))

    found = matched(database, a, b, largest_page=largest_page)
    assert [(one.position, one.other_position) for one in found] == [(n, 6 - n) for n in range(7)]


def test_texts_are_compared_unless_the_corpus_is_the_same(database: Database, add_job: AddJob) -> None:
    a = add_job(Line("x", "1", text="a text"), corpus_digest="one")
    same = add_job(Line("x", "1", text="a text"), corpus_digest="two")
    other = add_job(Line("x", "1", text="another"), corpus_digest="two")

    assert [matched(database, a, b)[0].has_same_text for b in (same, other)] == [True, False]
    with database.reading() as connection:
        assert not find_matching(connection, *jobs_of(database, same, other), None).with_texts


def test_jobs_of_one_corpus_may_have_allowed_different_rejected_lines(database: Database, add_job: AddJob) -> None:
    read = Corpus(path="c.jsonl").reading
    readings = (read, json.dumps(json.loads(read) | {"max_rejected": "1%"}), Corpus(path="c.txt").reading)
    a, b, other = (add_job(Line("x", "1"), corpus_digest="one", reading=one) for one in readings)

    with database.reading() as connection:
        assert not find_matching(connection, *jobs_of(database, a, b), None).with_texts
        assert find_matching(connection, *jobs_of(database, a, other), None).with_texts


def test_a_reference_is_a_text_field_of_the_first_job(database: Database, add_job: AddJob) -> None:
    a = add_job(
        Line("x", "1", fields={"meta": {"ref": "好"}}), Line("y", "1", fields={"meta": {"ref": 3}}), Line("z", "1")
    )
    b = add_job(Line("x", "1"), Line("y", "1"), Line("z", "1"))

    assert [one.reference for one in matched(database, a, b, "meta.ref")] == ["好", None, None]
    with pytest.raises(SpecError, match=r"'nothing'; .*meta"):
        matched(database, a, b, "nothing")


def test_details_are_read_by_position(database: Database, add_job: AddJob) -> None:
    a = add_job(Line("x", "1", text="one"), FAILED, Line("y", "2", text="two"))

    with database.reading() as connection:
        found = read_details(connection, *jobs_of(database, a), [2, 1, 0])
    assert {position: (one.text, *one.result) for position, one in found.items()} == {0: ("one", "1"), 2: ("two", "2")}


def test_a_page_is_two_statements_however_many_documents_there_are(database: Database, add_job: AddJob) -> None:
    lines = [Line(f"d{number}", str(number)) for number in range(50)]
    first, second = jobs_of(database, add_job(*lines), add_job(*lines))
    with database.reading() as connection:
        how = find_matching(connection, first, second, None)
    assert how.by is MatchedBy.ID
    statements: list[str] = []
    event.listen(database.engine, "before_cursor_execute", lambda *call: statements.append(call[2]))

    next(matched_pages(database, first, second, how))
    assert sum("documents" in statement for statement in statements) == 2


@ON_SQLITE
def test_ids_are_looked_up_by_their_index_and_not_by_reading_the_job(database: Database, add_job: AddJob) -> None:
    """Without statistics, SQLite takes a job for ten documents and would rather read it than look up a hundred ids."""
    lines = [Line(f"d{number}", str(number)) for number in range(120)]
    first, second = jobs_of(database, add_job(*lines), add_job(*lines))
    with database.reading() as connection:
        how = find_matching(connection, first, second, None)
    calls: list[tuple[str, object]] = []
    event.listen(database.engine, "before_cursor_execute", lambda *call: calls.append((call[2], call[3])))
    next(matched_pages(database, first, second, how))
    statement, parameters = calls[-1]

    with database.reading() as connection:
        plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters).all()
    assert any("job_id=? AND external_id=?" in step[-1] for step in plan)
