"""Results of every task follow the same rules: one row, fenced by the lease, in the table of the job's task."""

import dataclasses
import json
import math
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pytest
from sqlalchemy import Connection, func, insert, select, text

from jobs.answers import Answers
from jobs.errors import StaleLease
from jobs.measures import bits_per_byte, perplexity
from jobs.outcome import (
    AlignedSegment,
    Failed,
    Flag,
    Outcome,
    RankedCandidate,
    Ranking,
    Score,
    SegmentWords,
    StepTiming,
    TokenScore,
)
from jobs.spec import JobSpec
from jobs.store.connection import sqlite_engine
from jobs.store.database import Database
from jobs.store.disk_space.prune import prune_jobs
from jobs.store.jobs import cancel, retry
from jobs.store.queue import deaths, leases
from jobs.store.queue.record import record
from jobs.store.queue.work import Work
from jobs.store.report.documents.document import find_document
from jobs.store.report.job_summary import find_job
from jobs.store.report.recount.consistency_check import find_contradictions
from jobs.store.report.totals import totals, totals_by
from jobs.store.schema import result_tables, tables
from jobs.store.schema.clock import db_time
from jobs.store.schema.results import RESULTS, as_stored
from jobs.store.schema.states import DocumentStatus
from jobs.store.where.condition import Condition
from jobs.store.where.values import VIEW
from jobs.tasks.rerank import RerankOptions
from jobs.tasks.score import ScoreOptions
from jobs.tasks.task import Task
from jobs.tasks.translate import TranslateOptions
from tests.rows import PIVOT_COLUMNS, AddWaitingJob, pivoted, translated

LEASE_S = 60.0
with closing(sqlite3.connect(":memory:")) as _connection:
    _OPTIONS = {option for (option,) in _connection.execute("PRAGMA compile_options")}
SQLITE_HAS_EXP_AND_LN = "ENABLE_MATH_FUNCTIONS" in _OPTIONS


def scored(nll_sum: float = 6.0, num_tokens: int = 3, **how: Any) -> Score:
    return Score(nll_sum=nll_sum, num_tokens=num_tokens, num_words=2, num_bytes=12, **how)


def ranked() -> Ranking:
    best = RankedCandidate("b", 1, -0.5, 2.0)
    kept = RankedCandidate("a", 2, None, None, error="it holds no text")
    return Ranking(candidates=(best, kept), num_tokens=7, num_computed=20, num_shared=4)


@dataclass(frozen=True)
class Kind:
    """A task, with an example of its result."""

    spec: JobSpec
    outcome: Outcome
    counters: tuple[int, int]  # source and target tokens of one result

    @property
    def table(self) -> Any:
        return RESULTS[self.spec.task]


def spec_of(task: Task, options: Any) -> JobSpec:
    return JobSpec(task=task, model="tiny", model_revision="r1", options=options)


KINDS = [
    Kind(spec_of(Task.TRANSLATE, TranslateOptions()), translated(), (5, 4)),
    Kind(spec_of(Task.SCORE, ScoreOptions()), scored(num_source_tokens=2), (2, 3)),
    Kind(spec_of(Task.RERANK, RerankOptions()), ranked(), (20, 7)),
]
PHASES = ("encode.via", "decode.via", "encode", "decode", "segment")
SCORE, RERANK = KINDS[1].spec, KINDS[2].spec
every_task = pytest.mark.parametrize("kind", KINDS, ids=[kind.spec.task.value for kind in KINDS])
# For tests whose claim test_leases.py covers for translations.
newer_task = pytest.mark.parametrize("kind", KINDS[1:], ids=[kind.spec.task.value for kind in KINDS[1:]])


def take(database: Database, *, lease_s: float = LEASE_S) -> Work:
    work = leases.lease(database, 1, 0, lease_s)
    assert work is not None
    return work


def write(database: Database, work: Work, *outcomes: Outcome) -> None:
    record(database, work, 0, Answers(outcomes), lease_s=LEASE_S)


def number(database: Database, table: Any) -> int:
    with database.reading() as connection:
        return int(connection.execute(select(func.count()).select_from(table)).scalar_one())


def contradictions(database: Database, job: int) -> list[str]:
    with database.reading() as connection:
        return find_contradictions(connection, job)


def counts(database: Database, job: int) -> Any:
    with database.reading() as connection:
        return connection.execute(select(tables.JobCounts.__table__).where(tables.JobCounts.job_id == job)).one()


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


# views ---------------------------------------------------------------------------------------------------------------

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


# totals --------------------------------------------------------------------------------------------------------------


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
