"""Questions in SQL: they read, and do nothing else, and come to an end."""

import csv
import io
import json
import time
from pathlib import Path

import pytest

from jobs.errors import SpecError
from jobs.store.database import Database
from jobs.store.query import ask
from tests.unit.conftest import ON_SQLITE, AddJob, Kvjobs, Line


def test_a_query_answers_over_the_views(kvjobs: Kvjobs, mixed_job: int) -> None:
    sql = "select status, count(*) as n from v_documents where job_id = :job group by 1 order by 1"

    assert kvjobs("query", sql, "-p", "job", mixed_job, "--json").json == [
        {"status": status, "n": 1} for status in ("cancelled", "failed", "ok", "quarantined", "rejected")
    ]


def test_nothing_found_is_an_empty_list(kvjobs: Kvjobs, database: Database) -> None:
    assert kvjobs("query", "select * from v_jobs", "--json").out == "[]\n"


def test_csv_into_a_pipe_is_what_the_database_holds(kvjobs: Kvjobs, add_job: AddJob) -> None:
    texts = ["=1+1", "-x", "@a", "\x1b[31mred\x1b[0m", "\x9b\u202e\x7f", 'a "b", c\r\nd', "-5"]
    add_job(*(Line(str(place), text) for place, text in enumerate(texts)))
    sql = 'select translation as "=t" from v_documents order by position'

    def cells(*options: str) -> list[str]:
        out = kvjobs("query", sql, "--csv", *options).out
        return [row[0] for row in csv.reader(io.StringIO(out, newline=""))]

    assert cells() == cells("--raw") == ["=t", *texts]
    assert cells("--defuse") == ["'=t", "'=1+1", "'-x", "'@a", *texts[3:]]
    assert kvjobs("query", sql, "--json", "--defuse").exit_code == 2


def test_every_view_can_be_asked(kvjobs: Kvjobs, finished_job: int) -> None:
    for view in (
        *("v_jobs", "v_documents", "v_steps", "v_phases", "v_throughput", "v_shards", "v_shard_events", "v_workers"),
    ):
        assert kvjobs("query", f"select * from {view}", "--csv").exit_code == 0


@pytest.mark.parametrize(
    "sql",
    [
        "delete from jobs",
        "update jobs set name = 'x'",
        "insert into jobs (id) values (1)",
        "drop table jobs",
        "create table t (x)",
        "create temp table t (x)",
        "attach database '/tmp/x.db' as x",
        "attach ':memory:' as x",
        "pragma journal_mode = delete",
        "pragma table_info(jobs)",
        "select * from pragma_table_info('jobs')",
        "vacuum",
        "begin",
        "select load_extension('x')",
        "with x as (select 1) delete from jobs",
        "select 1; delete from jobs",
        "select",
        "selec 1",
        "select no_such_column from v_jobs",
        "select * from no_such_table",
        "select :missing",
        "",
        "/* nothing */",
        "select ?",
        "select abs(-9223372036854775808)",
    ],
)
def test_a_query_that_would_write_or_is_wrong_is_one_sentence(
    kvjobs: Kvjobs, finished_job: int, home: Path, sql: str
) -> None:
    before = kvjobs("ls", "--json").json[0]["documents"]

    result = kvjobs("query", sql)

    assert result.exit_code == 2
    assert result.out == ""
    assert result.err.startswith("Error: ")
    assert result.err.count("\n") == 1
    assert kvjobs("ls", "--json").json[0]["documents"] == before


def test_a_query_cannot_write_even_where_no_word_of_it_is_forbidden(database: Database, finished_job: int) -> None:
    with ask(database, "select count(*) from jobs", {}, 5) as answer:
        assert list(answer.rows) == [(1,)]


def test_a_query_that_does_not_end_is_ended(kvjobs: Kvjobs, database: Database) -> None:
    endless = "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n"
    started = time.monotonic()

    result = kvjobs("query", endless, "--timeout", "0.2")

    assert time.monotonic() - started < 5
    assert result.exit_code == 1
    assert "stopped after 0.2 seconds" in result.err


def test_the_time_of_a_slow_reader_does_not_count(database: Database) -> None:
    numbers = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 1000) select i from n"

    with ask(database, numbers, {}, 0.2) as answer:
        first = next(answer.rows)
        time.sleep(0.3)
        rest = list(answer.rows)

    assert (first, len(rest)) == ((1,), 999)


@ON_SQLITE
def test_a_value_cannot_eat_the_memory(database: Database) -> None:
    with pytest.raises(SpecError, match="too big"), ask(database, "select zeroblob(2000000000)", {}, 5) as answer:
        list(answer.rows)


@ON_SQLITE
def test_a_parameter_is_a_number_where_it_looks_like_one(kvjobs: Kvjobs, database: Database) -> None:
    values = {"a": "5", "b": "-1.5", "c": "007", "d": "1e3", "e": "'; drop table jobs", "f": "9" * 40, "g": ""}
    sql = "select " + ", ".join(f":{name} as {name}" for name in values)

    (row,) = kvjobs("query", sql, *(part for pair in values.items() for part in ("-p", *pair)), "--json").json

    assert row == {"a": 5, "b": -1.5, "c": "007", "d": 1000.0, "e": "'; drop table jobs", "f": 1e40, "g": ""}


def test_a_parameter_that_the_query_has_not_is_an_error(kvjobs: Kvjobs, database: Database) -> None:
    result = kvjobs("query", "select :job", "-p", "jobs", "1")

    assert result.exit_code == 2
    assert ":jobs" in result.err


def test_rows_that_are_left_out_are_mentioned(kvjobs: Kvjobs, mixed_job: int) -> None:
    sql = "select line from v_documents order by line"

    assert "Only the first 2 rows" in kvjobs("query", sql, "--limit", 2).err
    assert kvjobs("query", sql, "--limit", 5).err == ""
    assert kvjobs("query", sql, "--limit", 2, "--json").json == [{"line": 1}, {"line": 2}]


@ON_SQLITE
def test_columns_of_one_name_are_told_apart(kvjobs: Kvjobs, database: Database) -> None:
    assert kvjobs("query", "select 1, 1, 2 as x, 3 as x", "--json").json == [{"1": 1, "1_2": 1, "x": 2, "x_2": 3}]


@ON_SQLITE
def test_csv_is_guarded_and_a_table_is_visible(kvjobs: Kvjobs, database: Database) -> None:
    assert kvjobs("query", "select :x as x", "-p", "x", "=1", "--csv", "--defuse").out == "x\n'=1\n"
    assert r"\x1b" in kvjobs("query", "select char(27) as x").out


def test_the_query_comes_from_standard_input(
    kvjobs: Kvjobs, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    import io

    monkeypatch.setattr("sys.stdin", io.StringIO("select 1 as one"))

    assert json.loads(kvjobs("query", "-", "--json").out) == [{"one": 1}]


@ON_SQLITE
def test_the_file_need_not_be_writable(database: Database, finished_job: int, home: Path) -> None:
    (home / "kvjobs.db").chmod(0o444)

    with ask(database, "select job_id from v_jobs", {}, 5) as answer:
        assert list(answer.rows) == [(finished_job,)]
