"""The measurements of `bench cache`: what is written is read, and SQL can ask for it."""

from dataclasses import replace

import pytest
from sqlalchemy import text

from jobs.store.database import Database
from jobs.store.model_reports import CacheReportRow, log_cache_reports, newest_cache_reports
from jobs.store.report.query.query import AnswerLimits, answer
from jobs.store.report.query.saved_queries import saved_query
from tests.cache_reports import MEASURED

LONG = replace(MEASURED, target_tokens=9, steps=((0.1, 0.3),) * 9)


def newest(database: Database) -> list[CacheReportRow]:
    with database.reading() as connection:
        return newest_cache_reports(connection)


def test_a_measurement_is_read_as_it_was_written(database: Database) -> None:
    (number,) = log_cache_reports(database, [MEASURED])

    (found,) = newest(database)

    assert found.measured_at is not None
    assert replace(found, measured_at=None) == replace(MEASURED, id=number, steps=list(MEASURED.steps))
    assert (found.ratio, found.is_equal) == (4.0, True)
    assert found.cached_growth == pytest.approx(1.1)
    assert found.uncached_growth == pytest.approx(1.5)


def test_all_lengths_of_the_newest_call_are_shown_and_no_older_call(database: Database) -> None:
    log_cache_reports(database, [replace(MEASURED, target_tokens=5)])
    log_cache_reports(database, [replace(MEASURED, model="other")])
    with database.writing() as connection:  # the clock of a fast machine may not have gone on
        connection.execute(text("UPDATE cache_reports SET measured_at = '2026-01-01 00:00:00+00:00' WHERE id = 1"))

    second = log_cache_reports(database, [LONG, MEASURED])

    found = newest(database)
    assert [(one.model, one.target_tokens, one.id) for one in found] == [
        ("demo-en-zh", 3, second[1]),
        ("demo-en-zh", 9, second[0]),
        ("other", 3, 2),
    ]
    assert len({one.measured_at for one in found[:2]}) == 1


def test_a_split_model_is_shown_beside_the_whole_one(database: Database) -> None:
    log_cache_reports(database, [replace(MEASURED, stages=2)])
    log_cache_reports(database, [MEASURED])

    assert [one.stages for one in newest(database)] == [None, 2]


def test_a_measurement_is_written_whole_or_not_at_all(database: Database) -> None:
    twice = replace(LONG, version=None)  # type: ignore[arg-type]  # that the column refuses

    with pytest.raises(Exception, match="version"):
        log_cache_reports(database, [MEASURED, twice])

    assert newest(database) == []


def test_saved_queries_list_the_measurements_and_the_steps_of_the_longest(database: Database) -> None:
    log_cache_reports(database, [LONG, replace(MEASURED, num_different=1, stages=2)])
    limits, dialect = AnswerLimits(rows=100, seconds=20, num_bytes=1_000_000), database.engine.dialect.name

    reports = saved_query("cache-reports")
    listed = answer(database, reports.sql_for(dialect), reports.parameters, limits)
    steps = saved_query("cache-steps")
    of_longest = answer(database, steps.sql_for(dialect), steps.parameters, limits)

    shown = [dict(zip(listed.columns, row, strict=True)) for row in listed.rows]
    assert [(one["target_tokens"], one["ratio"], one["num_different"], one["stages"]) for one in shown] == [
        (3, 4.0, 1, 2),
        (9, 4.0, 0, None),
    ]
    assert [row[:4] for row in of_longest.rows] == [(step, 100.0, 300.0, pytest.approx(3.0)) for step in range(9)]
