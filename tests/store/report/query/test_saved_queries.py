"""The questions that come with kvjobs: each is answered by both databases, and says what its sentence promises."""

import math
from typing import Any

import pytest
from sqlalchemy import insert, text, update

from jobs.errors import NotFoundError, SpecError
from jobs.outcome import Score, StepTiming
from jobs.store.database import Database
from jobs.store.report.query.parameters import parameter_names
from jobs.store.report.query.query import Answer, AnswerLimits, answer
from jobs.store.report.query.saved_queries import saved_queries, saved_query
from jobs.store.schema import tables
from jobs.store.schema.clock import db_time
from jobs.store.schema.states import DocumentStatus
from jobs.tasks.task import Task
from tests.databases import BOTH
from tests.rows import Line, add_timings, insert_job, insert_waiting_job

LIMITS = AnswerLimits(rows=1000, seconds=20, num_bytes=1_000_000)


def ask(database: Database, name: str, **given: str) -> Answer:
    question = saved_query(name)
    with database.reading() as connection:
        values = question.values(connection, given)
    return answer(database, question.sql_for(database.engine.dialect.name), values, LIMITS)


def rows(database: Database, name: str, **given: str) -> list[dict[str, Any]]:
    found = ask(database, name, **given)
    return [dict(zip(found.columns, row, strict=True)) for row in found.rows]


@pytest.fixture
def filled(database: Database) -> Database:
    """A job of each kind, with failures, timings and events."""
    insert_waiting_job(database, documents=6, per_shard=3)
    translated = [Line(f"t{n}", "译" * n, log_prob=-float(n)) for n in range(1, 4)]
    broken = Line("broken", status=DocumentStatus.FAILED, error=("engine-error", "it broke"))
    deadly = Line("deadly", status=DocumentStatus.QUARANTINED, error=("killed", "two workers died"))
    insert_job(database, [*translated, broken, deadly], name="translated")
    scores = [
        Line(
            f"s{n}",
            fields={"lang": "en" if n < 2 else "de"},
            result=Score(nll_sum=n * 4.0, num_tokens=4, num_words=2, num_bytes=9),
        )
        for n in range(4)
    ]
    insert_job(database, scores, task=Task.SCORE, name="scored")
    timed = [("encode", 0, 1.0), ("decode", 0, 2.0), ("decode", 1, 3.0), ("record", 0, 2.0)]
    add_timings(database, 2, [StepTiming(phase, step, 3, 3, 40 * step, seconds) for phase, step, seconds in timed])
    with database.writing() as connection:
        for event in ("leased", "stale_commit", "recorded"):
            happened = {"job_id": 2, "shard_id": 1, "epoch": 1, "worker_id": 1, "event": event}
            connection.execute(insert(tables.ShardEvent).values(**happened, at=db_time()))
    return database


def test_every_question_is_answered_and_its_chart_has_its_columns(filled: Database) -> None:
    for name, question in saved_queries().items():
        assert set(question.chart.values()) <= set(ask(filled, name).columns), name


def test_every_question_is_answered_where_there_is_no_row(database: Database) -> None:
    insert_job(database, [])
    with database.writing() as connection:
        connection.execute(text("UPDATE jobs SET state = 'cancelled'"))

    for name in saved_queries():
        for row in ask(database, name).rows:
            assert len(row) > 1, name


@pytest.mark.parametrize("dialect", BOTH)
def test_a_question_declares_the_parameters_that_it_has(dialect: str) -> None:
    for name, question in saved_queries().items():
        sql = question.sql_for(dialect)

        assert "{" not in sql, name
        assert set(parameter_names(sql, is_sqlite=dialect == "sqlite")) == question.parameters.keys(), name


def test_phases_are_the_seconds_of_the_job(filled: Database) -> None:
    found = rows(filled, "phases", job="translated")

    assert [(row["phase"], row["seconds"], row["percent"]) for row in found[:1]] == [("decode", 5.0, 62.5)]
    assert sum(row["seconds"] for row in found) == 8.0


def test_the_cost_of_a_model_is_its_model_calls(filled: Database) -> None:
    (row,) = rows(filled, "model-costs")

    assert (row["jobs"], row["documents"], row["model_seconds"], row["s_per_1000_documents"]) == (1, 3, 6.0, 2000.0)


def test_a_decoder_call_is_told_by_step_and_by_cached_positions(filled: Database) -> None:
    steps = rows(filled, "decoder-steps", job="translated", calls="1")
    lengths = rows(filled, "past-lengths", job="translated")

    assert [(row["step"], row["ms_per_call"]) for row in steps] == [(0, 2000.0), (1, 3000.0)]
    assert [(row["past_length"], row["ms_per_call"]) for row in lengths] == [(0, 2000.0), (32, 3000.0)]


def test_the_calls_of_a_step_come_with_what_the_step_costs_on_average(filled: Database) -> None:
    add_timings(filled, 2, [StepTiming("decode", 1, 2, 2, 50, 5.0), StepTiming("decode", 3, 1, 1, 60, 0.5)])

    found = rows(filled, "step-calls", job="translated", step="1")

    assert [(row["ms_per_call"], row["rows"], row["past_length"]) for row in found] == [
        (5000.0, 2, 50),
        (3000.0, 3, 40),
    ]
    assert {row["mean_ms_of_step"] for row in found} == {4000.0}


def test_the_slowest_batch_comes_first_and_its_documents_are_found(filled: Database) -> None:
    batches = rows(filled, "slowest-batches", job="translated")
    documents = rows(filled, "slowest-documents", job="translated")

    assert [row["busy_s"] for row in batches] == [8.0, 0.0]
    assert {row["id"] for row in documents} == {"t1", "t2", "t3"}
    assert rows(filled, "slowest-documents", job="translated", batches="1") == []


def test_speed_and_idleness_are_of_the_seconds_that_a_lane_was_busy(filled: Database) -> None:
    (speed,) = rows(filled, "worker-speed", job="translated")
    (lane,) = rows(filled, "idle-lanes", job="translated")

    assert (speed["tokens"], speed["busy_s"], speed["tokens_per_busy_s"]) == (30, 8.0, 3.75)
    assert (lane["lane"], lane["batches"], lane["busy_s"]) == ("worker 1, lane 0", 2, 8.0)
    assert lane["percent_idle"] == pytest.approx(0, abs=10)


def test_lanes_at_work_are_the_seconds_of_a_minute(filled: Database) -> None:
    found = rows(filled, "busy-lanes", job="translated")

    assert sum(row["lanes_at_work"] for row in found) == pytest.approx(8.0 / 60)
    assert max(row["percent_in_model_calls"] or 0.0 for row in found) == 75.0


def test_failures_are_counted_over_all_jobs(filled: Database) -> None:
    insert_job(filled, [Line("x", status=DocumentStatus.FAILED, error=("engine-error", "again"))])

    found = {row["error_code"]: (row["documents"], row["jobs"], row["newest_job"]) for row in rows(filled, "failures")}

    assert found == {"engine-error": (2, 2, 4), "killed": (1, 1, 2)}


def test_last_is_the_newest_job_of_the_task_that_the_question_is_about(filled: Database) -> None:
    assert [row["id"] for row in rows(filled, "worst-perplexity", rows="2")] == ["s3", "s2"]
    assert [row["id"] for row in rows(filled, "least-sure", rows="1")] == ["t3"]


def test_last_is_a_job_that_was_begun_where_there_is_one(database: Database) -> None:
    insert_waiting_job(database)
    insert_waiting_job(database)
    with database.reading() as connection:
        assert saved_query("phases").values(connection, {})["job"] == "2"
    with database.writing() as connection:
        connection.execute(update(tables.Job).where(tables.Job.id == 1).values(started_at=db_time()))

    with database.reading() as connection:
        assert saved_query("phases").values(connection, {})["job"] == "1"


def test_perplexity_by_a_field_is_of_the_sums(filled: Database) -> None:
    found = rows(filled, "perplexity-by-field")

    assert [row["value"] for row in found] == ["de", "en"]
    assert found[0]["perplexity"] == pytest.approx(math.exp((8 + 12) / 8))


def test_documents_without_a_result_are_listed_with_their_reason(filled: Database) -> None:
    assert [(row["id"], row["error"]) for row in rows(filled, "quarantined", job="translated")] == [
        ("deadly", "two workers died")
    ]
    assert [row["id"] for row in rows(filled, "failed-documents", job="translated")] == ["broken", "deadly"]


def test_waiting_shards_have_waited_since_they_were_ready(filled: Database) -> None:
    with filled.writing() as connection:
        connection.execute(
            tables.Shard.__table__.update().where(tables.Shard.start == 3).values(available_at=db_time(-500))
        )

    first, second = rows(filled, "waiting-shards")

    assert 500 <= first["waits_s"] < 560
    assert 0 <= second["waits_s"] < 60


def test_lost_leases_leave_out_what_went_well(filled: Database) -> None:
    assert [row["event"] for row in rows(filled, "stale-commits", job="translated")] == ["stale_commit"]


def test_what_is_not_there_is_named(filled: Database) -> None:
    with pytest.raises(NotFoundError, match="did you mean phases"):
        saved_query("phase")
    with pytest.raises(SpecError, match=r"phases .*:rows.*:job"):
        ask(filled, "phases", rows="3")
    with pytest.raises(NotFoundError, match="no job 'nightly'"):
        ask(filled, "phases", job="nightly")


def test_an_answer_ends_at_its_limits(database: Database) -> None:
    numbers = (
        "with recursive n(i) as (select 1 union all select i + 1 from n where i < 500) select i, 'xxxxxxxx' x from n"
    )

    short = answer(database, numbers, {}, AnswerLimits(rows=10, seconds=5, num_bytes=1_000_000))
    small = answer(database, numbers, {}, AnswerLimits(rows=1000, seconds=5, num_bytes=1600))
    whole = answer(database, numbers, {}, AnswerLimits(rows=500, seconds=5, num_bytes=1_000_000))

    assert (len(short.rows), short.is_cut) == (10, True)
    assert (len(small.rows), small.is_cut) == (101, True)
    assert (len(whole.rows), whole.is_cut) == (500, False)
