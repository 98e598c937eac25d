"""What a page makes of an answer: kinds of columns, folded texts, the chart and its sentence."""

from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from jobs.store.report.query.query import Answer
from jobs.web.answers import FOLDED, LONGEST, cells_of, chart_of, columns_of
from tests.unit.jobs.web.sentences import missing


def answer(columns: str, *rows: Sequence[Any]) -> Answer:
    return Answer(tuple(columns.split()), list(rows), is_cut=False, seconds=0.1)


def test_a_column_is_what_all_its_values_are() -> None:
    found = answer("n t b none when", (1, "1", True, None, "2026-11-22 10:00"), (None, 2, False, None, None))

    assert [column.name for column in columns_of(found) if column.is_number] == ["n"]
    assert [column.name for column in columns_of(found) if column.is_time] == ["when"]


def test_a_cell_is_one_line_of_visible_text() -> None:
    cells = cells_of(answer("a b c d job_id", ("x\n\u202ey\x00", None, b"\xff", Decimal("0.5"), 7)))[0]

    assert [cell.text for cell in cells] == [r"x\n\u202ey\x00", "-", "ff", "0.5", "7"]
    assert [cell.is_null for cell in cells] == [False, True, False, False, False]
    assert cells[4].href == "/jobs/7"


def test_a_document_is_a_link_where_its_job_stands_beside_it() -> None:
    rows = cells_of(answer("job_id id", (7, "a/b c"), (7, ".."), (None, "x"), ("7", "x"), (7, None)))

    assert [[cell.href for cell in row] for row in rows] == [
        ["/jobs/7", "/jobs/7/documents/a%2Fb%20c"],
        ["/jobs/7", ""],
        ["", ""],
        ["", ""],
        ["/jobs/7", ""],
    ]


def test_a_long_text_is_folded_and_at_last_cut() -> None:
    (cell,) = cells_of(answer("t", ("x" * (LONGEST + 5),)))[0]

    assert (len(cell.text), len(cell.text + cell.rest), cell.left_out) == (FOLDED, LONGEST, 5)


def test_times_make_a_line_in_their_order() -> None:
    found = answer("minute speed", ("2026-11-22 10:01", 3.0), ("2026-11-22 10:00", 1.0))
    chart = chart_of(found, columns_of(found))

    assert chart is not None
    assert (chart.shape, chart.is_time) == ("line", True)
    assert list(chart.x) == ["2026-11-22T10:00Z", "2026-11-22T10:01Z"]
    assert list(chart.series[0].values) == [1.0, 3.0]
    course = "speed is 1 at minute 2026-11-22 10:00 and 3 at 2026-11-22 10:01"
    extremes = "highest at minute 2026-11-22 10:01 (3) and lowest at 2026-11-22 10:00 (1)"
    assert missing(chart.sentence, course, extremes, "2 points") == []


def test_times_of_postgresql_are_times() -> None:
    found = answer("at n", *((datetime(2026, 11, 22, hour, tzinfo=UTC), Decimal(hour)) for hour in (1, 2)))
    chart = chart_of(found, columns_of(found))

    assert chart is not None
    assert list(chart.x) == ["2026-11-22T01:00:00.000Z", "2026-11-22T02:00:00.000Z"]
    assert list(chart.series[0].values) == [1.0, 2.0]


def test_ids_are_places_and_never_heights() -> None:
    found = answer("shard_id worker", (1, "a"), (2, "b"))
    over_ids = answer("job_id percent", (3, 1.0), (2, 4.0))

    assert chart_of(found, columns_of(found)) is None
    assert chart_of(over_ids, columns_of(over_ids)) is None
    chart = chart_of(over_ids, columns_of(over_ids), "job_id", "percent")
    assert chart is not None
    assert (chart.shape, list(chart.x)) == ("bar", [2, 3])


def test_two_numbers_have_no_chart_until_one_is_named() -> None:
    found = answer("name a b", ("x", 1, 5), ("y", 2, 4))

    assert chart_of(found, columns_of(found)) is None
    chart = chart_of(found, columns_of(found), y="b")
    assert chart is not None
    assert list(chart.x) == ["x", "y"]
    assert chart_of(found, columns_of(found), x="nosuch", y="b") is None


def test_one_row_nulls_and_infinities_do_no_harm() -> None:
    one = answer("name a", ("x", 1))
    endless = (float("inf"), Decimal("Infinity"), Decimal("NaN"), Decimal("1e400"))
    gaps = answer("name a", ("x", None), (None, 2), *(("z", number) for number in endless))

    assert chart_of(one, columns_of(one)) is None
    chart = chart_of(gaps, columns_of(gaps))
    assert chart is not None
    assert list(chart.x) == []
    assert [row[1].text for row in cells_of(gaps)[2:]] == ["∞", "∞", "nan", "1E+400"]
