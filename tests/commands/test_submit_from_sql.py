"""`kvjobs submit --from-sql`: the rows of a query are a corpus."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from jobs.store.database import Database
from tests.command_line import Kvjobs
from tests.databases import ON_BOTH
from tests.messages import line_with

QUERY = "select id, body as text, lang from articles order by id"


@pytest.fixture
def other(tmp_path: Path) -> str:
    with closing(sqlite3.connect(tmp_path / "other.db")) as connection:
        connection.executescript(
            "create table articles (id integer, body text, lang text);"
            "insert into articles values (1, 'Snow will fall.', 'en'), (2, 'Rain.', 'en'), (3, null, 'en');"
        )
    return f"sqlite:///{tmp_path / 'other.db'}"


@ON_BOTH
def test_the_rows_of_a_query_are_the_same_job_however_often_they_are_asked(
    database: Database, kvjobs: Kvjobs, other: str
) -> None:
    first = kvjobs("submit", "--from-sql", QUERY, "--source", other, "--json")
    assert (first.json["documents"], first.json["rejected"]) == (3, 1)
    assert first.json["source"] == f"query of {other}: {QUERY}"
    assert line_with(first.err, "3 rows")
    assert kvjobs("submit", "--from-sql", f"{QUERY} ", "--source", other, "--json").json["job_id"] == 1
    line = kvjobs("export", 1, "--format", "original", "--only", "all").out.splitlines()[0]
    assert line == '{"id":1,"text":"Snow will fall.","lang":"en"}'


def test_a_table_that_has_changed_is_another_job(
    database: Database, kvjobs: Kvjobs, other: str, tmp_path: Path
) -> None:
    ask = ("submit", "--from-sql", QUERY, "--source", other, "--json")
    assert kvjobs(*ask).json["job_id"] == 1
    with closing(sqlite3.connect(tmp_path / "other.db")) as connection:
        connection.execute("insert into articles values (4, 'Wind.', 'en')")
        connection.commit()
    assert kvjobs(*ask).json["job_id"] == 2


def test_the_address_may_be_in_a_variable_and_its_password_is_not_stored(
    database: Database, kvjobs: Kvjobs, other: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEWS_DB", f"{other}?password=SECRET")
    done = kvjobs("submit", "--from-sql", QUERY, "--source", "NEWS_DB", "--json")
    assert done.json["documents"] == 3
    shown = kvjobs("show", 1)
    with closing(sqlite3.connect(home / "kvjobs.db")) as connection:
        dump = "\n".join(connection.iterdump())
    assert "query of NEWS_DB (sqlite:///" in dump
    for text in (done.out, done.err, shown.out, dump):
        assert "SECRET" not in text


def test_a_dry_run_asks_the_query_and_submits_nothing(database: Database, kvjobs: Kvjobs, other: str) -> None:
    counted = kvjobs("submit", "--from-sql", QUERY, "--source", other, "--dry-run", "--json")
    assert (counted.json["documents"], counted.json["rejected"]) == (3, 1)
    assert kvjobs("ls", "--json").json == []


@pytest.mark.parametrize(
    ("arguments", "fact"),
    [
        (("--from-sql", QUERY), "--source"),
        (("--source", "NEWS_DB"), "--from-sql"),
        (("corpus.jsonl", "--from-sql", QUERY, "--source", "NEWS_DB"), "CORPUS"),
        ((), "corpus"),
        (("--from-sql", QUERY, "--source", "NEWS_DB"), "NEWS_DB"),
        (("--from-sql", "select id from articles where id > 9", "--source", "OTHER"), "no document"),
        (("--from-sql", "select id from nowhere", "--source", "OTHER"), "nowhere"),
        (("--from-sql", "select id, body from articles", "--source", "OTHER"), "--text-field"),
    ],
)
def test_what_cannot_be_asked_is_refused_and_makes_no_job(
    database: Database,
    kvjobs: Kvjobs,
    other: str,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    fact: str,
) -> None:
    monkeypatch.setenv("OTHER", other)
    refused = kvjobs("submit", *arguments)
    assert refused.exit_code == 2
    assert fact in refused.err
    assert kvjobs("ls", "--json").json == []
