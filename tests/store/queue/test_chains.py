"""Chains: each stage gets every document of the stage before it, exactly once, whatever happens to either."""

import json
import sqlite3
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import event, select, text, update

from jobs.errors import SpecError
from jobs.stage import CORPUS, FilterSpec, Stage
from jobs.store.database import Database
from jobs.store.disk_space.prune import prune_jobs
from jobs.store.jobs import cancel, pause, resume, retry
from jobs.store.queue import leases
from jobs.store.queue.job_counters import lock_counters
from jobs.store.report.recount.consistency_check import find_contradictions
from jobs.store.schema.clock import db_time
from jobs.store.schema.tables import Document, Job, JobCounts, Shard
from jobs.submission import shards
from jobs.tasks.score import ScoreOptions
from tests.databases import ON_POSTGRESQL
from tests.small_chains import KEPT, LINES, SCORE, SCORED, begin, finish, finish_all
from tests.store.leasing import counts, take
from tests.store.queue.test_record import until_one_waits

KEPT_BY_LENGTH = Stage(FilterSpec("position > 0 and length(translation) = 3"), reads=1)


@pytest.fixture(autouse=True)
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"SHARD_TOKENS": 1_000, "SHARD_DOCUMENTS": 2, "BATCH_DOCUMENTS": 4}.items():
        monkeypatch.setattr(shards, name, value)


def table(database: Database, job_id: int) -> dict[int, tuple[str | None, str | None, str | None]]:
    with database.reading() as connection:
        found = connection.execute(
            select(Document.position, Document.text, Document.status, Document.error_code)
            .where(Document.job_id == job_id)
            .order_by(Document.position)
        )
        return {row.position: tuple(row)[1:] for row in found}


def states(database: Database) -> list[str]:
    with database.reading() as connection:
        return list(connection.execute(select(Job.state).order_by(Job.id)).scalars())


def check(database: Database, chain: list[int]) -> None:
    for job_id in chain:
        with database.reading() as connection:
            assert find_contradictions(connection, job_id) == []


def test_a_stage_starts_as_shards_of_the_one_before_finish(database: Database, tmp_path: Path) -> None:
    chain = begin(database, tmp_path, SCORED)
    assert states(database) == ["running", "running"]
    assert table(database, chain[1]) == {}

    finish(database, take(database))

    assert table(database, chain[1]) == {0: ("t-0", None, None), 1: ("t-1", None, None)}
    assert take(database).job_id == chain[1], "what was begun is ended first"
    check(database, chain)


@ON_POSTGRESQL
def test_workers_of_the_next_stage_wait_for_no_document_that_is_handed_on(database: Database, tmp_path: Path) -> None:
    """The documents are inserted before the lock of its counters is asked for."""
    chain = begin(database, tmp_path, SCORED)
    work = take(database)
    closer = threading.Thread(target=lambda: finish(database, work), daemon=True)
    inserts = """SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE relation = 'documents'::regclass
                 AND mode = 'RowExclusiveLock' AND wait_event_type = 'Lock'"""

    with database.writing() as connection:
        lock_counters(connection, chain[1])
        closer.start()
        until_one_waits(database)
        assert connection.execute(text(inserts)).scalar_one() == 1
        assert table(database, chain[1]) == {}
    closer.join(30.0)

    assert len(table(database, chain[1])) == 2
    check(database, chain)


@ON_POSTGRESQL
def test_a_stage_that_is_cancelled_while_documents_are_handed_on_cancels_them(
    database: Database, tmp_path: Path
) -> None:
    chain = begin(database, tmp_path, SCORED)
    work = take(database)
    closer = threading.Thread(target=lambda: finish(database, work), daemon=True)

    with database.writing() as connection:
        lock_counters(connection, chain[1])
        closer.start()
        until_one_waits(database)
        of_stage = Job.id == chain[1]
        connection.execute(update(Job).where(of_stage).values(cancel_requested_at=db_time()))
    closer.join(30.0)

    assert {status for _, status, _ in table(database, chain[1]).values()} == {"cancelled"}
    check(database, chain)


def test_every_document_is_translated_scored_and_filtered_once(database: Database, tmp_path: Path) -> None:
    chain = begin(database, tmp_path, SCORED, KEPT, bad_line=True)

    finish_all(database)

    assert states(database) == ["done"] * 3
    _, scored, kept = chain
    assert {position: text for position, (text, _, _) in table(database, scored).items()} == {
        **{position: f"t-{position}" for position in (0, 1, 3, 4, 5, 6)},
        2: None,
    }
    assert {position: code for position, (_, _, code) in table(database, kept).items()} == {
        position: {2: "no-result"}.get(position, "filtered" if position % 2 else None) for position in range(7)
    }
    of_filter = counts(database, kept)
    assert (of_filter.documents, of_filter.succeeded, of_filter.skipped) == (7, 3, 4)
    check(database, chain)


def test_a_document_that_failed_is_skipped_behind_and_goes_on_after_a_retry(database: Database, tmp_path: Path) -> None:
    chain = begin(database, tmp_path, SCORED, KEPT)
    finish_all(database, failing=frozenset({2}))
    assert [table(database, job)[2][1:] for job in chain] == [
        ("failed", "engine-error"),
        *[("skipped", "no-result")] * 2,
    ]
    assert states(database) == ["done"] * 3

    assert retry(database, chain[2]) == 1, "whichever stage is named"

    assert states(database) == ["running"] * 3
    check(database, chain)
    finish_all(database)
    assert states(database) == ["done"] * 3
    assert [counts(database, job).succeeded for job in chain] == [6, 6, 3]
    check(database, chain)


def test_a_cancelled_chain_ends_whole_and_can_be_retried(database: Database, tmp_path: Path) -> None:
    chain = begin(database, tmp_path, SCORED, KEPT)
    finish(database, take(database))
    held = leases.lease(database, 1, 0, 60.0)
    assert held is not None
    cancel(database, chain[1])
    leases.release(database, held)
    assert states(database) == ["cancelled"] * 3
    check(database, chain)

    retry(database, chain[0])
    check(database, chain)
    finish_all(database)

    assert states(database) == ["done"] * 3
    assert [counts(database, job).succeeded for job in chain] == [6, 6, 3]
    check(database, chain)


def test_a_chain_is_paused_and_resumed_as_one(database: Database, tmp_path: Path) -> None:
    chain = begin(database, tmp_path, SCORED)
    finish(database, take(database))

    pause(database, chain[0])
    assert leases.lease(database, 1, 0, 60.0) is None
    resume(database, chain[1])
    finish_all(database)

    assert states(database) == ["done"] * 2


def test_the_same_chain_is_the_same_jobs_and_another_chain_others(database: Database, tmp_path: Path) -> None:
    first = begin(database, tmp_path, SCORED)

    assert begin(database, tmp_path, SCORED) == first
    others = [begin(database, tmp_path), begin(database, tmp_path, replace(SCORED, reads=CORPUS))]
    assert begin(database, tmp_path, SCORED, again=True) not in [first, *others]
    assert len({job for chain in [first, *others] for job in chain}) == 5


def test_a_stage_may_read_the_corpus(database: Database, tmp_path: Path) -> None:
    chain = begin(database, tmp_path, replace(SCORED, reads=CORPUS))

    finish(database, take(database))

    assert [text for text, _, _ in table(database, chain[1]).values()] == ["text 0", "text 1"]


def test_a_translation_model_scores_the_translation_given_what_was_translated(
    database: Database, tmp_path: Path
) -> None:
    pairs = Stage(replace(SCORE, options=ScoreOptions(pairs=True)), reads=1)
    chain = begin(database, tmp_path, KEPT_BY_LENGTH, pairs)

    finish_all(database)

    found = {position: text and json.loads(text) for position, (text, _, _) in table(database, chain[2]).items()}
    assert found[1] == {"source": "text 1", "target": "t-1"}
    assert found[0] is None, "the filter does not keep it"
    check(database, chain)


def test_a_field_that_no_document_has_is_refused_before_anything_is_stored(database: Database, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"'perplexty' .*no value.*no field"):
        begin(database, tmp_path, SCORED, Stage(FilterSpec("perplexty < 50"), reads=1))

    assert states(database) == []


def test_where_a_condition_cannot_be_evaluated_the_range_is_skipped_and_says_why(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A field of 6,000 characters makes a text too long for SQLite, whose limit is lowered from 1 GB, and a number too
    large for PostgreSQL."""
    lines = [line | {"lang": "x" * 6_000} if line["id"] == "d3" else line for line in LINES]
    monkeypatch.setattr("tests.small_chains.LINES", lines)
    if database.engine.dialect.name == "sqlite":
        event.listen(database.engine, "checkout", lambda raw, *_: raw.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 10_000))
        condition, reason = "length(lang || lang) > 0", "string or blob too big"
    else:
        powers = ["1e300"]
        while len(powers) < 9:
            powers.append(f"({powers[-1]} * {powers[-1]})")
        # 1e134400 times 0 or 5,998. PostgreSQL's numbers have 131,072 digits.
        condition, reason = f"(length(lang) - 2) * {' * '.join(powers[6:])} >= 0", "value overflows numeric format"
    chain = begin(database, tmp_path, Stage(FilterSpec(condition), reads=1), SCORED)

    finish_all(database)

    assert states(database) == ["done"] * 3
    for job in chain[1:]:
        codes = {position: code for position, (_, _, code) in table(database, job).items()}
        assert codes == {position: "filter-error" if position in (2, 3) else None for position in range(6)}
        assert (counts(database, job).succeeded, counts(database, job).skipped) == (4, 2)
        with database.reading() as connection:
            errors = select(Document.error).where(Document.job_id == job, Document.status == "skipped")
            said = set(connection.execute(errors).scalars())
        assert said == {f"the database cannot evaluate the condition on a document near this one: {reason}"}
    check(database, chain)


def test_a_pruned_chain_is_gone_with_all_stages_and_can_be_submitted_again(database: Database, tmp_path: Path) -> None:
    chain = begin(database, tmp_path, SCORED, KEPT)
    finish_all(database)

    prune_jobs(database, [chain[1]])

    assert states(database) == []
    with database.reading() as connection:
        assert not any(connection.execute(select(one)).first() for one in (Document, Shard, JobCounts))
    assert len(begin(database, tmp_path, SCORED, KEPT)) == 3


def test_a_refused_corpus_leaves_no_stage(database: Database, tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r"--strict .*all"):
        begin(database, tmp_path, SCORED, bad_line=True, strict=True)

    assert states(database) == []


def test_an_interrupted_submit_is_continued_with_its_stages(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(name: str) -> None:
        if name == "before-ingest-finish":
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("jobs.submission.submit.failpoint", interrupted)
        with pytest.raises(KeyboardInterrupt):
            begin(database, tmp_path, SCORED, KEPT, bad_line=True)
    assert states(database) == ["ingesting"] * 3
    cancel(database, 2)
    assert states(database) == ["cancelled"] * 3
    retry(database, 1)
    assert states(database) == ["ingesting"] * 3

    chain = begin(database, tmp_path, SCORED, KEPT, bad_line=True)
    finish_all(database)

    assert (chain, states(database)) == ([1, 2, 3], ["done"] * 3)
    assert [counts(database, job).documents for job in chain] == [7, 7, 7]
    check(database, chain)
