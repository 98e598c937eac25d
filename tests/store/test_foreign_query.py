"""The rows of another database as lines of JSON, on SQLite and PostgreSQL."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from jobs.errors import KvjobsError, SpecError
from jobs.settings import hide_passwords
from jobs.store.foreign_query import FETCHED_ROWS, query_lines
from tests.databases import own_database

TABLE = "create table articles (id integer, body text)"
ROWS = "insert into articles values (1, 'snow'), (2, 'rain')"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with own_database() as url, psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute(f"{TABLE}; {ROWS}; create sequence numbers")
        yield url.replace("+psycopg", "")


@pytest.fixture
def file(tmp_path: Path) -> str:
    with closing(sqlite3.connect(tmp_path / "other.db")) as connection:
        connection.executescript(f"{TABLE}; {ROWS};")
    return f"sqlite:///{tmp_path / 'other.db'}"


@pytest.fixture(params=["file", "server"])
def other(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(request.param))


def lines(url: str, query: str) -> list[bytes]:
    return list(query_lines(url, hide_passwords(url), query))


def test_each_row_is_an_object_whose_keys_are_the_columns(other: str) -> None:
    query = "select id, body as text, null as gap, 'a%b' as sign from articles where body like '%n%' order by id;  "
    found = lines(other, query)
    assert found == [
        b'{"id":1,"text":"snow","gap":null,"sign":"a%b"}\n',
        b'{"id":2,"text":"rain","gap":null,"sign":"a%b"}\n',
    ]
    assert lines(other, "select id from articles where id > 9") == []


def test_types_that_json_lacks_have_a_form_of_their_own(server: str) -> None:
    query = """select 1.10::numeric as decimal, 'NaN'::numeric as none, 0.1::float8 as double, 'NaN'::float8 as nan,
        date '2026-01-02' as date, timestamp '2026-01-02 03:04:05.000006' as local,
        timestamptz '2026-01-02 03:04:05+02' as moment, time '03:04' as time, interval '1 day 1.5 s' as interval,
        '\\x00ff'::bytea as bytes, 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid as uuid, array[1, 2] as list,
        '{"a": 1.10, "b": 12345678901234567890123}'::jsonb as json, true as flag, 9007199254740993 as big,
        inet '10.0.0.1' as address"""
    (line,) = lines(server, query)
    assert line == (
        b'{"decimal":1.10,"none":null,"double":0.1,"nan":null,"date":"2026-01-02",'
        b'"local":"2026-01-02T03:04:05.000006","moment":"2026-01-02T01:04:05Z","time":"03:04:00","interval":86401.5,'
        b'"bytes":"AP8=","uuid":"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11","list":[1,2],'
        b'"json":{"a": 1.10, "b": 12345678901234567890123},"flag":true,"big":9007199254740993,"address":"10.0.0.1"}\n'
    )


def test_bytes_of_sqlite_are_base64(file: str) -> None:
    assert lines(file, "select x'00ff' as bytes, 0.5 as number") == [b'{"bytes":"AP8=","number":0.5}\n']


WRITES = [
    "insert into articles values (3, 'x') returning id",
    "delete from articles returning id",
    "drop table articles",
]


@pytest.mark.parametrize("query", WRITES)
def test_nothing_is_written(other: str, query: str) -> None:
    with pytest.raises(SpecError):
        lines(other, query)
    assert len(lines(other, "select id from articles")) == 2


@pytest.mark.parametrize(
    "query",
    [
        *("with gone as (delete from articles returning id) select id from gone", "select nextval('numbers')"),
        *("select 1 as id; delete from articles", "commit; delete from articles", "set transaction read write"),
    ],
)
def test_a_server_is_asked_one_query_that_only_reads(server: str, query: str) -> None:
    with pytest.raises(SpecError):
        lines(server, query)
    assert len(lines(server, "select id from articles")) == 2


def test_a_refusal_is_a_sentence_that_names_the_database(other: str) -> None:
    for query, fact in (
        ("select none from nowhere", "nowhere"),
        ("selec", "selec"),
        ("select id, body as id from articles", "'id'"),
    ):
        with pytest.raises(SpecError) as refused:
            lines(other, query)
        said = str(refused.value)
        assert said.startswith(hide_passwords(other))
        assert fact in said
        assert "\n" not in said


def test_an_error_in_the_middle_ends_the_rows(server: str) -> None:
    rows = query_lines(server, "x", f"select 1 / ({FETCHED_ROWS * 3} - g) as id from generate_series(1, 100000) g")
    with pytest.raises(SpecError, match="division by zero"):
        list(rows)


def test_a_database_that_cannot_be_asked_is_said_without_its_password(tmp_path: Path) -> None:
    for url, kind in (
        ("postgresql://user:SECRET@127.0.0.1:1/news", KvjobsError),
        ("oracle://user:SECRET@host/news", SpecError),
        ("postgresql+nosuch://user:SECRET@host/news", SpecError),
        ("postgresql://user:SECRET@host:port/news", SpecError),
        (f"sqlite:///{tmp_path}/none.db", SpecError),
    ):
        with pytest.raises(kind) as refused:
            lines(url, "select 1 as id")
        assert "SECRET" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def test_rows_are_fetched_as_they_are_read(server: str) -> None:
    query = "select g as id, repeat(md5(g::text), 200) as text from generate_series(1, 40000) g"  # 256 MB
    before, most, num_rows = resident_bytes(), 0, 0
    for _line in query_lines(server, "x", query):
        num_rows += 1
        if num_rows % 1000 == 0:
            most = max(most, resident_bytes())
    assert num_rows == 40000
    assert most - before < 64 << 20
