"""The upgrade to 0012 gives every job its provider and allows an unknown log-probability, without rewriting a row."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from jobs.outcome import Failed
from jobs.store.database import Database
from jobs.store.queue.deltas import fold
from jobs.store.schema.migrate import differences, downgrade, upgrade
from tests.databases import ON_SQLITE
from tests.rows import insert_waiting_job, translated
from tests.store.leasing import contradictory, take, write
from tests.store.schema.older_database import MadeOnce, copied, made_of_each_kind

BEFORE_PROVIDERS = "0011"
UNKNOWN = replace(translated("unknown"), log_prob=None)


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MadeOnce]:
    """Databases of version 0011 with two results and a failure."""
    with made_of_each_kind(_make_older, tmp_path_factory.mktemp("older")) as made:
        yield made


@pytest.fixture
def database(request: pytest.FixtureRequest, older: MadeOnce, tmp_path: Path) -> Iterator[Database]:
    with copied(older(request.param), tmp_path) as database:
        yield database


def _make_older(database: Database) -> None:
    upgrade(database.engine)
    insert_waiting_job(database, documents=4, per_shard=3)
    write(database, take(database), outcomes=[translated("a"), translated("b"), Failed("engine-error", "it broke")])
    fold(database)
    downgrade(database.engine, BEFORE_PROVIDERS)


def read(database: Database, sql: str) -> list[tuple[Any, ...]]:
    with database.reading() as connection:
        return [tuple(row) for row in connection.execute(text(sql))]


def test_a_job_of_an_older_version_was_answered_by_onnx(database: Database) -> None:
    upgrade(database.engine)

    assert read(database, "SELECT DISTINCT provider FROM translations") == [("onnx",)]
    listed = "SELECT place, provider, model, documents, failed, handed_over, cost FROM job_providers"
    assert read(database, listed) == [(0, "onnx", "opus-mt-en-zh", 2, 1, 0, 0.0)]
    assert differences(database.engine) == []
    write(database, take(database))
    assert contradictory(database, 1) == []


def test_an_unknown_log_probability_can_be_stored_after_the_upgrade_and_not_before(database: Database) -> None:
    unknown = text("UPDATE translations SET log_prob = NULL WHERE position = 0")
    with pytest.raises(IntegrityError), database.engine.begin() as connection:
        connection.execute(unknown)

    upgrade(database.engine)

    with database.writing() as connection:
        connection.execute(unknown)
    assert read(database, "SELECT position, text, log_prob FROM translations ORDER BY position") == [
        (0, "a", None),
        (1, "b", -1.0),
    ]


def test_an_older_version_gets_its_tables_back(database: Database) -> None:
    columns = "SELECT * FROM translations ORDER BY position"
    before = read(database, columns)
    upgrade(database.engine)
    write(database, take(database), outcomes=[UNKNOWN])

    downgrade(database.engine, BEFORE_PROVIDERS)

    assert read(database, columns)[:2] == before
    with pytest.raises(IntegrityError), database.engine.begin() as connection:
        connection.execute(text("UPDATE translations SET log_prob = NULL"))


@ON_SQLITE
def test_the_file_is_sound_and_an_open_connection_sees_the_new_schema(database: Database) -> None:
    with database.engine.connect() as other:
        assert other.execute(text("SELECT count(*) FROM translations")).scalar_one() == 2
        other.rollback()

        upgrade(database.engine)

        other.execute(text("UPDATE translations SET log_prob = NULL WHERE position = 1"))
        other.commit()
    assert read(database, "PRAGMA integrity_check") == [("ok",)]
    assert read(database, "PRAGMA writable_schema") == [(0,)]
