"""Perplexity, throughput and totals in views and reports: sums first, division last."""

import dataclasses
import json
import math
import sqlite3
from contextlib import closing
from typing import Any

import pytest
from sqlalchemy import Connection, select, text

from jobs.measures import bits_per_byte, perplexity
from jobs.outcome import Failed, Flag, Score
from jobs.store.connection import sqlite_engine
from jobs.store.database import Database
from jobs.store.report.job_summary import find_job
from jobs.store.report.totals import totals, totals_by
from jobs.store.schema import tables
from jobs.store.where.condition import Condition
from jobs.store.where.values import VIEW
from tests.rows import AddWaitingJob, translated
from tests.store.task_results import KINDS, SCORE, scored, take, write

with closing(sqlite3.connect(":memory:")) as _connection:
    _OPTIONS = {option for (option,) in _connection.execute("PRAGMA compile_options")}
SQLITE_HAS_EXP_AND_LN = "ENABLE_MATH_FUNCTIONS" in _OPTIONS
MEASURES = "perplexity, word_perplexity, byte_perplexity, bits_per_byte"


@pytest.fixture
def score_job(database: Database, add_waiting_job: AddWaitingJob) -> int:
    """Four documents: 3 tokens at a mean of 2 nats, one token of 900,000 nats, no tokens, and a failure."""
    job = add_waiting_job(documents=4, per_shard=4, spec=SCORE)
    unscored = Score(nll_sum=0.0, num_tokens=0, num_words=0, num_bytes=0)
    write(database, take(database), scored(), scored(9e5, 1), unscored, Failed("engine-error", "it broke"))
    return job


def select_documents(connection: Connection, columns: str, where: str = "1 = 1") -> list[tuple[Any, ...]]:
    found = connection.execute(text(f"SELECT {columns} FROM v_documents WHERE {where} ORDER BY position"))
    return [tuple(row) for row in found]


def test_the_measures_of_the_view_follow_from_the_sums(database: Database, score_job: int) -> None:
    with database.reading() as connection:
        rows = select_documents(connection, f"status, {MEASURES}")

    assert [row[0] for row in rows] == ["ok", "ok", "ok", "failed"]
    assert rows[0][1:] == pytest.approx(
        (perplexity(6.0, 3), perplexity(6.0, 2), perplexity(6.0, 12), bits_per_byte(6.0, 12)), rel=1e-12
    )
    assert rows[1][1:] == pytest.approx((math.inf, math.inf, math.inf, bits_per_byte(9e5, 12)))
    assert rows[2][1:] == rows[3][1:] == (None, None, None, None)


@pytest.mark.parametrize(
    ("condition", "positions"),
    [
        ("perplexity < 50", [0]),
        ("perplexity >= 50", [1]),
        ("perplexity is null", [2, 3]),
        ("num_tokens = 0", [2]),
        ("bits_per_byte < 1 or error_code = 'engine-error'", [0, 3]),
        ("translation is null and ranking is null", [0, 1, 2, 3]),
    ],
)
def test_a_condition_may_use_the_measures(
    database: Database, score_job: int, condition: str, positions: list[int]
) -> None:
    with database.reading() as connection:
        clause = Condition.parse(condition).of_job(connection, score_job).clause(connection.dialect.name)
        found = connection.execute(select(VIEW.c.position).where(clause).order_by(VIEW.c.position))
        assert list(found.scalars()) == positions


def test_the_throughput_view_covers_every_task(database: Database, add_waiting_job: AddWaitingJob) -> None:
    jobs = [add_waiting_job(documents=1, per_shard=1, spec=kind.spec) for kind in KINDS]
    for kind in KINDS:
        write(database, take(database), kind.outcome)

    with database.reading() as connection:
        sql = "SELECT job_id, SUM(documents), SUM(source_tokens), SUM(target_tokens) FROM v_throughput GROUP BY job_id"
        rows = connection.execute(text(f"{sql} ORDER BY job_id"))
        assert [tuple(map(int, row)) for row in rows] == [
            (job, 1, *kind.counters) for job, kind in zip(jobs, KINDS, strict=True)
        ]


@pytest.mark.skipif(not SQLITE_HAS_EXP_AND_LN, reason="this SQLite was built without exp and ln")
@pytest.mark.parametrize("value", [-800.0, 0.0, 1.0, 709.0, 800.0, None, "x"])
def test_exp_and_ln_of_kvjobs_equal_those_of_sqlite(value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Except for a text, of which those of kvjobs give NULL; no query takes the exponential of a text."""
    with closing(sqlite3.connect(":memory:")) as built_in, closing(sqlite3.connect(":memory:")) as defined:
        defined.create_function("exp", 1, sqlite_engine._exp, deterministic=True)
        defined.create_function("ln", 1, sqlite_engine._ln, deterministic=True)

        for function in ("exp", "ln"):
            if value == "x":
                assert defined.execute(f"SELECT {function}(?)", [value]).fetchone() == (None,)
                continue
            expected = built_in.execute(f"SELECT {function}(?)", [value]).fetchone()
            assert defined.execute(f"SELECT {function}(?)", [value]).fetchone() == pytest.approx(expected)


def test_totals_are_calculated_from_sums_and_not_as_a_mean_of_ratios(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    job = add_waiting_job(documents=4, per_shard=4, spec=SCORE)
    unscored = Score(nll_sum=0.0, num_tokens=0, num_words=0, num_bytes=0)
    write(database, take(database), scored(2.0, 1), scored(9.0, 9), unscored, Failed("engine-error", "it broke"))

    with database.reading() as connection:
        whole = totals(connection, find_job(connection, str(job)))

    assert (whole.documents, whole.unscored, whole.sums["num_tokens"], whole.sums["nll_sum"]) == (2, 1, 10, 11.0)
    assert whole.measures["perplexity"] == pytest.approx(math.exp(1.1))
    assert whole.measures["word_perplexity"] == pytest.approx(math.exp(11 / 4))
    assert whole.measures["bits_per_byte"] == pytest.approx(11 / 24 / math.log(2))


def test_totals_by_a_field_distinguish_values_by_json_type(database: Database, add_waiting_job: AddWaitingJob) -> None:
    values = ['{"a b": "1"}', '{"a b": 1}', '{"a b": true}', '{"a b": null}', None, '{"other": 1}', '{"a b": "1"}']
    job = add_waiting_job(documents=7, per_shard=7, spec=SCORE)
    with database.writing() as connection:
        for position, fields in enumerate(values):
            here = (tables.Document.job_id == job, tables.Document.position == position)
            connection.execute(tables.Document.__table__.update().where(*here).values(fields=fields))
    write(database, take(database), *[scored()] * 7)

    with database.reading() as connection:
        found = totals_by(connection, find_job(connection, str(job)), "a b")

    groups = [(type(one.group).__name__, one.group, one.documents) for one in found]
    assert groups == [("int", 1, 1), ("str", "1", 2), ("bool", True, 1), ("NoneType", None, 3)]
    assert all(one.measures["perplexity"] == pytest.approx(math.exp(2)) for one in found)


def test_totals_of_translations_count_characters_tokens_and_flags(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    """Sources are `text 0`, `text 1` ...; a server's answer has no log-probability, and counts for no perplexity."""
    job = add_waiting_job(documents=5, per_shard=5)
    with database.writing() as connection:
        for position, language in enumerate(("en", "en", "fr", "fr", "de")):
            here = (tables.Document.job_id == job, tables.Document.position == position)
            fields = json.dumps({"lang": language})
            connection.execute(tables.Document.__table__.update().where(*here).values(fields=fields))
    of_a_server = dataclasses.replace(translated("天气预报", Flag.UNSCORED, Flag.TRUNCATED), log_prob=None)
    first, second = translated("雨"), translated("大雨", Flag.TRUNCATED)
    write(database, take(database), first, second, of_a_server, translated("x" * 9), Failed("engine-error", "it broke"))

    with database.reading() as connection:
        summary = find_job(connection, str(job))
        whole, parts = totals(connection, summary), totals_by(connection, summary, "lang")

    assert (whole.documents, whole.unscored) == (4, 1)
    sums = {
        "source_characters": 24,
        "target_characters": 16,
        "source_tokens": 20,
        "target_tokens": 16,
        "log_prob": -3.0,
    }
    assert whole.sums == sums
    assert whole.measures == {"perplexity": pytest.approx(math.exp(3 / 12))}
    assert list(whole.flags.items()) == [("truncated", 2), ("unscored", 1)]
    assert whole.flags == summary.flags
    assert [(part.group, part.documents, dict(part.flags)) for part in parts] == [
        ("en", 2, {"truncated": 1}),
        ("fr", 2, {"truncated": 1, "unscored": 1}),
    ]
    assert [part.sums["target_characters"] for part in parts] == [3, 13]


def test_totals_of_a_job_without_a_result_are_zero(database: Database, add_waiting_job: AddWaitingJob) -> None:
    jobs = [add_waiting_job(), add_waiting_job(spec=SCORE)]

    with database.reading() as connection:
        found = [totals(connection, find_job(connection, str(job))) for job in jobs]

    assert [(one.documents, set(one.sums.values()), set(one.measures.values())) for one in found] == [
        (0, {0}, {None})
    ] * 2
