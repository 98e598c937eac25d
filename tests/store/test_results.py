"""Results of every task follow the same rules: one row, fenced by the lease, in the table of the job's task."""

import dataclasses
import json
import math
from typing import Any

import pytest
from sqlalchemy import func, insert, select, text

from jobs.answers import Answers
from jobs.errors import StaleLease
from jobs.outcome import (
    AlignedSegment,
    Failed,
    Flag,
    RankedCandidate,
    Ranking,
    Score,
    SegmentWords,
    StepTiming,
    TokenScore,
)
from jobs.store.database import Database
from jobs.store.disk_space.prune import prune_jobs
from jobs.store.jobs import cancel, retry
from jobs.store.queue import deaths, leases
from jobs.store.queue.record import record
from jobs.store.report.documents.document import find_document
from jobs.store.report.job_summary import find_job
from jobs.store.report.recount.consistency_check import find_contradictions
from jobs.store.schema import result_tables, tables
from jobs.store.schema.clock import db_time
from jobs.store.schema.results import RESULTS, as_stored
from jobs.store.schema.states import DocumentStatus
from tests.rows import PIVOT_COLUMNS, AddWaitingJob, pivoted, translated
from tests.store.task_results import KINDS, LEASE_S, RERANK, SCORE, Kind, counts, ranked, scored, take, write

PHASES = ("encode.via", "decode.via", "encode", "decode", "segment")
every_task = pytest.mark.parametrize("kind", KINDS, ids=[kind.spec.task.value for kind in KINDS])
# For tests whose claim test_leases.py covers for translations.
newer_task = pytest.mark.parametrize("kind", KINDS[1:], ids=[kind.spec.task.value for kind in KINDS[1:]])


def number(database: Database, table: Any) -> int:
    with database.reading() as connection:
        return int(connection.execute(select(func.count()).select_from(table)).scalar_one())


def contradictions(database: Database, job: int) -> list[str]:
    with database.reading() as connection:
        return find_contradictions(connection, job)


@every_task
def test_a_result_is_written_once_into_its_own_table_and_counted_once(
    database: Database, add_waiting_job: AddWaitingJob, kind: Kind
) -> None:
    job = add_waiting_job(documents=3, per_shard=3, spec=kind.spec)
    work = take(database)

    for _ in range(2):  # as if the answer to the first COMMIT was lost
        write(database, work, kind.outcome, kind.outcome, Failed("engine-error", "it broke"))

    assert {table.__tablename__: number(database, table) for table in RESULTS.values()} == {
        table.__tablename__: 2 * (table is kind.table) for table in RESULTS.values()
    }
    row = counts(database, job)
    assert (row.succeeded, row.failed, row.estimated_done, row.shards_open) == (2, 1, 30, 0)
    assert (row.source_tokens, row.target_tokens) == tuple(2 * tokens for tokens in kind.counters)
    assert contradictions(database, job) == []


def test_alignments_of_a_translation_are_recorded_as_they_are_exported(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    """A sentence that was translated in pieces has none."""
    job = add_waiting_job(documents=2, per_shard=2)
    words = SegmentWords(((0, 4), (5, 9)), ((0, 1), (1, 3)), ((0, 1), (1, 0), (1, 1)))
    segments = (AlignedSegment(0, 10, 0, 4), AlignedSegment(11, 19, 4, 7))
    write(
        database,
        take(database),
        dataclasses.replace(translated("雨下下。很长。", Flag.SPLIT), segments=segments, alignments=(words, None)),
        translated(),
    )

    with database.reading() as connection:
        stored = [
            find_document(connection, find_job(connection, str(job)), position=place).result["alignments"]
            for place in (0, 1)
        ]

    expected = {"source": [[0, 4], [5, 9]], "target": [[0, 1], [1, 3]], "links": "0-1 1-0 1-1"}
    assert [found and json.loads(found) for found in stored] == [[expected, None], None]
    assert contradictions(database, job) == []


def test_a_translation_of_two_models_is_recorded_with_the_text_and_the_seconds_between_them(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    spec = dataclasses.replace(KINDS[0].spec, options=PIVOT_COLUMNS["options"])
    job = add_waiting_job(documents=2, per_shard=2, spec=spec)
    steps = [StepTiming(phase, 0, 2, 9, 0, 0.5) for phase in PHASES]
    pivot = pivoted("Wind", "wind", (AlignedSegment(0, 4, 0, 4), (0, 4)))
    outcomes = (dataclasses.replace(pivot, unknown_share=0.25), translated())

    record(database, take(database), 0, Answers(outcomes, timings=steps), lease_s=LEASE_S)

    assert contradictions(database, job) == []
    with database.reading() as connection:
        rows = connection.execute(
            text("SELECT via, via_source_tokens, via_segments, unknown_share FROM v_documents ORDER BY position")
        )
        assert [tuple(row) for row in rows] == [("wind", 6, "[[0,4]]", 0.25), (None, None, None, None)]
        assert connection.execute(text("SELECT model_s, busy_s FROM v_batches")).one() == (2.0, 2.5)
        phases = connection.execute(text("SELECT phase, step FROM v_decoder_steps ORDER BY phase"))
        assert [tuple(row) for row in phases] == [("decode", 0), ("decode.via", 0)]
    infinite = dataclasses.replace(outcomes[0], via=dataclasses.replace(outcomes[0].via, log_prob=-math.inf))
    assert isinstance(as_stored(infinite), Failed)


@newer_task
def test_a_worker_that_slept_past_its_lease_writes_nothing(
    database: Database, add_waiting_job: AddWaitingJob, kind: Kind
) -> None:
    job = add_waiting_job(documents=1, per_shard=1, spec=kind.spec)
    sleeper = take(database, lease_s=-1.0)
    deaths.expire(database)
    write(database, take(database), kind.outcome)

    with pytest.raises(StaleLease):
        write(database, sleeper, Failed("engine-error", "too late"))

    assert (number(database, kind.table), counts(database, job).failed) == (1, 0)
    assert contradictions(database, job) == []


@newer_task
def test_documents_with_a_result_are_neither_leased_nor_cancelled_again(
    database: Database, add_waiting_job: AddWaitingJob, kind: Kind
) -> None:
    job = add_waiting_job(documents=3, per_shard=3, tokens=40_000, spec=kind.spec)  # one batch per document
    work = take(database)
    write(database, work, kind.outcome)
    leases.release(database, work)

    again = take(database)
    assert [document.position for batch in again.batches for document in batch] == [1, 2]
    leases.release(database, again)

    assert cancel(database, job) == 2
    row = counts(database, job)
    assert (row.succeeded, row.cancelled) == (1, 2)
    assert contradictions(database, job) == []


@newer_task
def test_a_retry_reopens_only_failed_documents(database: Database, add_waiting_job: AddWaitingJob, kind: Kind) -> None:
    job = add_waiting_job(documents=2, per_shard=2, spec=kind.spec)
    write(database, take(database), kind.outcome, Failed("engine-error", "it broke"))

    assert retry(database, job) == 1
    work = take(database)
    assert [document.position for document in work.batches[0]] == [1]
    write(database, work, kind.outcome)

    assert (number(database, kind.table), counts(database, job).succeeded) == (2, 2)
    assert contradictions(database, job) == []


@newer_task
def test_a_pruned_job_leaves_no_result(database: Database, add_waiting_job: AddWaitingJob, kind: Kind) -> None:
    job = add_waiting_job(documents=1, per_shard=1, spec=kind.spec)
    write(database, take(database), kind.outcome)

    prune_jobs(database, [job])

    assert number(database, kind.table) == number(database, tables.Document) == 0


def test_a_result_in_the_table_of_another_task_is_reported_as_a_contradiction(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    job = add_waiting_job(documents=1, per_shard=1, spec=SCORE)
    write(database, take(database), scored())
    with database.writing() as connection:
        stray = as_stored(ranked())
        assert isinstance(stray, dict)
        values = {"job_id": job, "position": 0, "shard_id": 1, "epoch": 1, "worker_id": 1}
        connection.execute(insert(result_tables.Ranking).values(**stray, **values, finished_at=db_time()))

    assert contradictions(database, job) == ["results in the table rankings, which is not that of the job's task: 1"]


@pytest.mark.parametrize(
    "outcome",
    [
        scored(nll_sum=math.nan),
        scored(nll_sum=math.inf),
        scored(tokens=(TokenScore("a", 0, 1, math.nan),)),
        Ranking((RankedCandidate("a", 1, math.nan, None),), 1, 1, 0),
    ],
)
def test_a_non_finite_number_is_never_stored(
    database: Database, add_waiting_job: AddWaitingJob, outcome: Score | Ranking
) -> None:
    job = add_waiting_job(documents=1, per_shard=1, spec=SCORE if isinstance(outcome, Score) else RERANK)

    write(database, take(database), outcome)

    assert counts(database, job).failed == 1
    with database.reading() as connection:
        document = connection.execute(select(tables.Document.status, tables.Document.error_code)).one()
    assert tuple(document) == (DocumentStatus.FAILED, "non-finite")
    assert contradictions(database, job) == []
