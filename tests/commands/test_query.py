"""`kvjobs query`: SQL queries that can only read and are stopped after a time limit."""

import csv
import io
import json
import sqlite3
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from sqlalchemy import text

from jobs.errors import SpecError, StoreError
from jobs.store.database import Database
from jobs.store.report.query import limits
from jobs.store.report.query.errors import translated_query_errors
from jobs.store.report.query.limits import TimeLimit
from jobs.store.report.query.query import run_query
from jobs.store.schema.migrate import HEAD
from jobs.store.schema.views import VIEW_COLUMNS
from tests.command_line import Kvjobs
from tests.databases import ON_BOTH, ON_POSTGRESQL
from tests.messages import line_with
from tests.rows import AddJob, Line


@ON_BOTH
def test_a_query_reads_the_views(kvjobs: Kvjobs, mixed_job: int) -> None:
    sql = "select status, count(*) as n from v_documents where job_id = :job group by 1 order by 1"

    assert kvjobs("query", sql, "-p", "job", mixed_job, "--json").json == [
        {"status": status, "n": 1} for status in ("cancelled", "failed", "ok", "quarantined", "rejected")
    ]


@ON_BOTH
def test_an_empty_result_is_an_empty_list(kvjobs: Kvjobs, database: Database) -> None:
    assert kvjobs("query", "select * from v_jobs", "--json").out == "[]\n"


@ON_BOTH
def test_csv_into_a_pipe_has_the_values_of_the_database_unchanged(kvjobs: Kvjobs, add_job: AddJob) -> None:
    texts = ["=1+1", "-x", "@a", "\x1b[31mred\x1b[0m", "\x9b\u202e\x7f", 'a "b", c\r\nd', "-5"]
    add_job(*(Line(str(place), text) for place, text in enumerate(texts)))
    sql = 'select translation as "=t" from v_documents order by position'

    def cells(*options: str) -> list[str]:
        out = kvjobs("query", sql, "--csv", *options).out
        return [row[0] for row in csv.reader(io.StringIO(out, newline=""))]

    assert cells() == cells("--raw") == ["=t", *texts]
    assert cells("--defuse") == ["'=t", "'=1+1", "'-x", "'@a", *texts[3:]]
    assert kvjobs("query", sql, "--json", "--defuse").exit_code == 2


@ON_BOTH
def test_every_view_can_be_queried(kvjobs: Kvjobs, finished_job: int) -> None:
    for view in VIEW_COLUMNS:
        assert kvjobs("query", f"select * from {view}", "--csv").exit_code == 0


@ON_BOTH
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
        "select fts3_tokenizer('simple')",
        "select fts3_tokenizer('x', x'4141414141414141')",
        "select readfile('/etc/passwd')",
        "select sqlite_compileoption_get(0)",
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
def test_a_query_that_writes_or_is_invalid_is_refused_with_one_sentence(
    kvjobs: Kvjobs, database: Database, finished_job: int, sql: str
) -> None:
    result = kvjobs("query", sql)

    assert result.exit_code == 2
    assert result.out == ""
    assert result.err.startswith("Error: ")
    assert result.err.count("\n") == 1
    with database.reading() as connection:
        assert connection.execute(text("SELECT count(*) FROM documents")).scalar_one() == 3
        assert connection.execute(text("SELECT name FROM jobs")).scalars().all() == ["nightly"]


@ON_BOTH
def test_a_column_that_is_not_there_gets_those_that_are(kvjobs: Kvjobs, finished_job: int) -> None:
    said = kvjobs("query", "select v_documents.perplexty from v_documents").err

    assert line_with(said, "perplexity?", "v_documents", "job_id, position, ")
    assert "v_jobs has" not in said


def test_json_lists_can_be_queried_as_tables(kvjobs: Kvjobs, database: Database) -> None:
    result = kvjobs("query", "select value from json_each('[3, 4]') union all select atom from json_tree('5')", "--csv")

    assert result.out.splitlines() == ["value", "3", "4", "5"]


@ON_BOTH
def test_a_query_cannot_write_even_without_the_check_of_statements(database: Database, finished_job: int) -> None:
    with run_query(database, "select count(*) from jobs", {}, 5) as answer:
        assert list(answer.rows) == [(1,)]


@ON_BOTH
def test_a_query_that_does_not_end_is_stopped(kvjobs: Kvjobs, database: Database) -> None:
    endless = "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n"

    result = kvjobs("query", endless, "--timeout", "0.2")

    assert result.exit_code == 1
    assert "0.2 seconds" in result.err


@ON_BOTH
def test_the_time_limit_does_not_include_the_time_of_a_slow_reader(database: Database) -> None:
    numbers = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 1000) select i from n"

    with run_query(database, numbers, {}, 0.2) as answer:
        first = next(answer.rows)
        time.sleep(0.3)
        rest = list(answer.rows)

    assert (first, len(rest)) == ((1,), 999)


@ON_BOTH
def test_rows_that_are_read_ahead_are_few_where_they_are_large(database: Database) -> None:
    large = "hex(zeroblob(2500000))" if database.is_sqlite else "repeat('x', 5000000)"
    numbers = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 20)"

    with run_query(database, f"{numbers} select {large} from n", {}, 60) as answer, traced_memory() as peak:
        sizes = [len(cell) for (cell,) in answer.rows]

    assert sizes == [5_000_000] * 20
    assert peak() < 25_000_000


@ON_POSTGRESQL
def test_a_row_that_is_too_large_stays_on_the_server(database: Database) -> None:
    sql = "select repeat(repeat('x', 1000000), 40)"

    with run_query(database, sql, {}, 60) as answer, traced_memory() as peak:
        with pytest.raises(SpecError, match=r"larger.*32 MB"):
            next(answer.rows)
        assert peak() < 10_000_000


@contextmanager
def traced_memory() -> Iterator[Callable[[], int]]:
    """The most memory of Python's objects that were made inside, in bytes, so far."""
    most = 0

    def peak() -> int:
        return tracemalloc.get_traced_memory()[1] if tracemalloc.is_tracing() else most

    tracemalloc.start()
    try:
        yield peak
    finally:
        most = peak()
        tracemalloc.stop()


@ON_BOTH
def test_a_row_that_is_too_large_is_refused_whatever_stands_before_it(kvjobs: Kvjobs, database: Database) -> None:
    large = "zeroblob(90000000)" if database.is_sqlite else "repeat(repeat('x', 1000000), 40)"

    result = kvjobs("query", f"select 1, 'one' as x union all select 2, {large}", "--csv")

    assert (result.exit_code, result.err.count("\n")) == (2, 1), result.err
    assert line_with(result.err, "larger", "32 MB")


@ON_POSTGRESQL
def test_a_row_whose_text_is_compressed_in_the_database_is_not_too_small(database: Database, finished_job: int) -> None:
    with database.writing() as connection:
        connection.execute(text("UPDATE documents SET text = repeat('x', 40000000) WHERE position = 0"))
    sql = "select text from v_documents order by position"

    with pytest.raises(SpecError, match=r"larger.*32 MB"), run_query(database, sql, {}, 60) as answer:
        list(answer.rows)


def test_an_answer_that_is_too_large_for_a_table_is_refused(
    kvjobs: Kvjobs, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LARGEST_TABLE", 1000)
    sql = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 4) select zeroblob(300) from n"

    result = kvjobs("query", sql)

    assert (result.exit_code, result.out, result.err.count("\n")) == (2, "", 1)
    assert line_with(result.err, "too much", "table")
    assert len(kvjobs("query", sql, "--json").json) == 4


def test_the_size_of_a_value_is_limited(database: Database) -> None:
    sql = "select length(zeroblob(2000000000))"

    with pytest.raises(SpecError, match=r"larger.*100 MB"), run_query(database, sql, {}, 5) as answer:
        list(answer.rows)


def test_the_memory_of_sqlite_is_limited_and_its_end_is_a_sentence(database: Database) -> None:
    with run_query(database, "select 1", {}, 5) as answer:
        list(answer.rows)
    with closing(sqlite3.connect(":memory:")) as any_connection:
        assert any_connection.execute("PRAGMA hard_heap_limit").fetchone() == (limits.SQLITE_MEMORY,)

    with pytest.raises(SpecError, match="memory"), translated_query_errors(TimeLimit(5)):
        raise MemoryError  # as the driver does at the limit


def test_a_parameter_that_looks_like_a_number_is_a_number(kvjobs: Kvjobs, database: Database) -> None:
    values = {"a": "5", "b": "-1.5", "c": "007", "d": "1e3", "e": "'; drop table jobs", "f": "9" * 40, "g": ""}
    sql = "select " + ", ".join(f":{name} as {name}" for name in values)

    (row,) = kvjobs("query", sql, *(part for pair in values.items() for part in ("-p", *pair)), "--json").json

    assert row == {"a": 5, "b": -1.5, "c": "007", "d": 1000.0, "e": "'; drop table jobs", "f": 1e40, "g": ""}


@ON_BOTH
def test_a_parameter_that_the_query_lacks_is_an_error(kvjobs: Kvjobs, database: Database) -> None:
    result = kvjobs("query", "select :job", "-p", "jobs", "1")

    assert result.exit_code == 2
    assert ":jobs" in result.err


@ON_BOTH
def test_omitted_rows_are_reported(kvjobs: Kvjobs, mixed_job: int) -> None:
    sql = "select line from v_documents order by line"

    assert line_with(kvjobs("query", sql, "--limit", 2).err, "Only", "2 rows")
    assert kvjobs("query", sql, "--limit", 5).err == ""
    assert kvjobs("query", sql, "--limit", 2, "--json").json == [{"line": 1}, {"line": 2}]


def test_columns_with_the_same_name_get_distinct_names(kvjobs: Kvjobs, database: Database) -> None:
    assert kvjobs("query", "select 1, 1, 2 as x, 3 as x", "--json").json == [{"1": 1, "1_2": 1, "x": 2, "x_2": 3}]


def test_csv_escapes_formulas_and_a_table_shows_control_characters(kvjobs: Kvjobs, database: Database) -> None:
    assert kvjobs("query", "select :x as x", "-p", "x", "=1", "--csv", "--defuse").out == "x\n'=1\n"
    assert r"\x1b" in kvjobs("query", "select char(27) as x").out


@ON_BOTH
def test_a_query_can_be_read_from_standard_input(
    kvjobs: Kvjobs, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    import io

    monkeypatch.setattr("sys.stdin", io.StringIO("select 1 as one"))

    assert json.loads(kvjobs("query", "-", "--json").out) == [{"one": 1}]


def test_the_file_need_not_be_writable(database: Database, finished_job: int, home: Path) -> None:
    (home / "kvjobs.db").chmod(0o444)

    with run_query(database, "select job_id from v_jobs", {}, 5) as answer:
        assert list(answer.rows) == [(finished_job,)]


@ON_BOTH
def test_colons_and_percent_signs_in_a_text_are_not_parameters(kvjobs: Kvjobs, add_job: AddJob) -> None:
    add_job(Line("a", "1:x 5%"), Line("b", "乙"))
    sql = """select id, 7 % 4 as rest, ':a %s' as "c:x%" -- :b, 5%
             from v_documents where translation like '%:x%' and id = :id /* :c */"""

    assert kvjobs("query", sql, "-p", "id", "a", "--json").json == [{"id": "a", "rest": 3, "c:x%": ":a %s"}]


@ON_POSTGRESQL
@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("select 5::text || :x as v", "5y"),
        ("select e'\\':x' || :x as v", "':xy"),
        ("select $$:a ;$$ || $b$ :c $$ $b$ || :x as v", ":a ; :c $$ y"),
        ("select (array['p', 'q', 'r'])[2:2]::text || :x as v", "{q}y"),
        ("(select :x as v)", "y"),
        ("/* select */ select :x as v;", "y"),
        ("values (:x)", "y"),
        ("table alembic_version", HEAD),
    ],
)
def test_colons_that_only_look_like_a_parameter_are_not_one(database: Database, sql: str, value: str) -> None:
    with run_query(database, sql, {"x": "y"} if ":x" in sql else {}, 5) as answer:
        assert list(answer.rows) == [(value,)]


@ON_POSTGRESQL
@pytest.mark.parametrize(
    "sql",
    [
        "select pg_advisory_lock(4713)",
        "select 1 from pg_catalog.pg_try_advisory_xact_lock(4713) as t",
        'select "pg_sleep"(60)',
        'select U&"pg\\005fsleep"(60)',
        "select pg_sleep/* */ (60)",
        "explain (analyze) select pg_sleep(60)",
        "explain analyze verbose values (pg_sleep(60))",
        "select set_config('statement_timeout', '0', false)",
        "select lo_create(4711)",
        "select pg_terminate_backend(1), pg_cancel_backend(1)",
        "select pg_reload_conf()",
        "select query_to_xml('select 1', true, true, '')",
        "select table_to_xml('jobs', true, true, '')",
        "select ts_rewrite('a'::tsquery, 'select 1, 1')",
        "select nextval('jobs_id_seq')",
        "select * from pg_ls_dir('.')",
        "select 1 where exists (select pg_notify('a', 'b'))",
        "select count(*) filter (where pg_advisory_lock(1) is null) from jobs",
        "with x as (select pg_read_file('a')) select 1",
        "select txid_current()",
        "select :x::text || pg_export_snapshot()",
        "select * from jobs for update",
    ],
)
def test_a_query_calls_only_functions_that_read(database: Database, sql: str) -> None:
    values = {"x": "y"} if ":x" in sql else {}
    with pytest.raises(SpecError, match="may only"), run_query(database, sql, values, 5) as answer:
        list(answer.rows)


@ON_POSTGRESQL
def test_functions_that_read_can_be_called(database: Database, finished_job: int) -> None:
    sql = """select count(*) filter (where random() < 2), string_agg(upper(id), ',' order by id), max(lag)
                    as "pg_sleep(1)"
             from (select id, row_number() over (order by position) + 1 as lag, json_extract(id, '$') as j
                   from v_documents where id ~ 'd' and now() > '2020-01-01'::timestamptz) d, generate_series(1, 1)"""

    with run_query(database, sql.replace("json_extract(id, '$')", "json_extract('{}', '$.a')"), {}, 5) as answer:
        assert list(answer.rows) == [(3, "D0,D1,D2", 4)]


@ON_POSTGRESQL
@pytest.mark.parametrize("beginning", ["", "explain analyze "])
def test_the_time_limit_covers_all_rows_together(database: Database, beginning: str) -> None:
    sql = f"{beginning}select md5(i::text) from generate_series(1, 100000000) i"

    with pytest.raises(StoreError, match=r"0\.3 seconds"), run_query(database, sql, {}, 0.3) as answer:
        list(answer.rows)
