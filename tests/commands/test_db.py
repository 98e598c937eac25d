"""`kvjobs db`: the path, the upgrade, the consistency check, and the deletion of jobs."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import func, select, text

from jobs.store.database import Database
from jobs.store.disk_space import free_pages, prune
from jobs.store.glossaries import count_glossaries, read_glossary_content, store_glossary
from jobs.store.report.recount.consistency_check import find_contradictions
from jobs.store.schema import result_tables, tables
from jobs.store.schema.migrate import HEAD
from jobs.store.schema.states import DocumentStatus
from jobs.store.schema.step_table import Step
from jobs.tasks.translate import TranslateOptions
from jobs.terms.glossary import read_glossary
from tests.command_line import Kvjobs
from tests.databases import ON_BOTH
from tests.messages import line_with
from tests.rows import AddJob, Line

OF_A_JOB = (
    tables.Job,
    tables.Document,
    result_tables.Translation,
    tables.Shard,
    Step,
    tables.ShardEvent,
    tables.JobCounts,
)


def execute(database: Database, *statements: str) -> None:
    with database.writing() as connection:
        for statement in statements:
            connection.execute(text(statement))


def rows(database: Database, table: type[tables.Base], job_id: int) -> int:
    column = table.id if table is tables.Job else table.job_id  # type: ignore[attr-defined]
    with database.reading() as connection:
        return int(connection.execute(select(func.count()).where(column == job_id)).scalar_one())


def test_path_prints_the_path_of_the_database_file(kvjobs: Kvjobs, home: Path) -> None:
    assert kvjobs("db", "path").out == f"{home}/kvjobs.db\n"


def test_upgrade_creates_the_tables_and_reports_it(kvjobs: Kvjobs, home: Path) -> None:
    assert line_with(kvjobs("db", "upgrade").err, f"schema {HEAD}", "empty")
    assert "up to date" in kvjobs("db", "upgrade").err
    assert kvjobs("db", "check").out == "No problem found.\n"


def test_a_database_of_a_newer_version_is_left_alone(kvjobs: Kvjobs, database: Database) -> None:
    execute(database, "UPDATE alembic_version SET version_num = '9999'")

    for command in (("ls",), ("db", "upgrade")):
        assert kvjobs(*command).exit_code == 1
    assert "9999" in kvjobs("ls").err
    assert kvjobs("db", "check").exit_code == 1


def test_a_table_that_differs_is_named(kvjobs: Kvjobs, database: Database) -> None:
    execute(database, "ALTER TABLE workers ADD COLUMN surprise TEXT")

    result = kvjobs("db", "check", "--json")

    assert result.exit_code == 1
    assert "surprise" in result.json["problems"][0]


def test_a_file_that_is_not_a_database_is_refused_with_one_sentence(kvjobs: Kvjobs, home: Path) -> None:
    (home / "kvjobs.db").write_bytes(b"not a database at all, but long enough for a header" * 100)

    for command in (("ls",), ("db", "check"), ("db", "upgrade"), ("doctor",)):
        result = kvjobs(*command)
        assert result.exit_code == 1
        assert "not a database" in result.out + result.err
        assert "bug" not in result.err


@ON_BOTH
def test_consistent_jobs_pass_the_check(kvjobs: Kvjobs, finished_job: int, mixed_job: int, running_job: int) -> None:
    for job in (finished_job, mixed_job, running_job):
        assert kvjobs("db", "check", job).out == "No problem found.\n"
    assert kvjobs("db", "check", "nobody").exit_code == 5


DAMAGES = [
    ("UPDATE documents SET status = 'failed' WHERE position = 0", "documents with both a result and a failure: 1"),
    ("DELETE FROM translations WHERE position = 0", "documents still waiting, though the job is done: 1"),
    ("DELETE FROM documents WHERE position = 0", "results of no document: 1"),
    ("UPDATE translations SET epoch = 2 WHERE position = 0", "results with an epoch above that of its shard: 1"),
    ("UPDATE shards SET stop = 2", "results outside the shard that recorded it: 1"),
    ("UPDATE job_counts SET succeeded = 2", "the counter succeeded says 2, the recount 3"),
    ("UPDATE job_counts SET target_tokens = 0", "the counter target_tokens says 0, the recount 30"),
    ("UPDATE job_counts SET estimated_done = 0", "the counter estimated_done says 0"),
    ("UPDATE shards SET state = 'ready'", "shards still open, though the job is done: 1"),
    ("UPDATE job_counts SET shards = 7", "the counters say 7 shards"),
]


@ON_BOTH
def test_every_kind_of_contradiction_is_found(database: Database, finished_job: int) -> None:
    for damage, sentence in DAMAGES:
        with database.engine.connect() as connection, connection.begin() as transaction:
            connection.execute(text(damage))
            assert sentence in "; ".join(find_contradictions(connection, finished_job))
            transaction.rollback()


def test_the_check_fails_on_a_contradiction(kvjobs: Kvjobs, database: Database, finished_job: int) -> None:
    damage, sentence = DAMAGES[0]
    execute(database, damage)

    result = kvjobs("db", "check", finished_job)

    assert result.exit_code == 1
    assert sentence in result.out


@ON_BOTH
def test_a_document_that_no_worker_would_lease_is_reported(
    kvjobs: Kvjobs, database: Database, running_job: int
) -> None:
    execute(database, "UPDATE shards SET state = 'done'", "UPDATE job_counts SET shards_open = 0")

    assert line_with(kvjobs("db", "check", running_job).out, "shard 1 ", "waiting", "done: 1")


@ON_BOTH
def test_prune_deletes_a_job_with_all_its_rows(
    kvjobs: Kvjobs, database: Database, add_job: AddJob, finished_job: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(free_pages, "FIRST", 2)
    monkeypatch.setattr(free_pages, "MOST", 2)
    kept = add_job(Line("a", "甲"))
    before = {table: rows(database, table, kept) for table in OF_A_JOB}

    result = kvjobs("db", "prune", "nightly", "--yes")

    assert result.exit_code == 0
    assert result.err.startswith("Deleted 1 job with 3 documents.")
    assert not any(rows(database, table, finished_job) for table in OF_A_JOB)
    assert {table: rows(database, table, kept) for table in OF_A_JOB} == before


@ON_BOTH
def test_prune_deletes_the_glossaries_that_no_job_has(kvjobs: Kvjobs, database: Database, add_job: AddJob) -> None:
    kept, unused = (read_glossary(f"rain\t{word}\n") for word in ("Regen", "Niederschlag"))
    job = add_job(Line("a", "甲"), finished_s_ago=86400, options=TranslateOptions(glossary=kept))
    with database.writing() as connection:
        for glossary in (kept, unused):
            store_glossary(connection, glossary)

    without_jobs = kvjobs("db", "prune", "--older-than", "2", "--yes", "--json")
    assert "Deleted 1 glossary that no job has." in without_jobs.err
    assert (without_jobs.json["glossaries"], without_jobs.json["rows"]) == (1, 0)
    assert read_glossary_content(database, kept).terms() == kept.terms()

    assert kvjobs("db", "prune", job, "--yes").err.startswith(
        "Deleted 1 job with 1 document and 1 glossary that no job has."
    )
    with database.reading() as connection:
        assert count_glossaries(connection) == 0


@ON_BOTH
def test_an_interrupted_prune_leaves_no_job_that_looks_complete(
    kvjobs: Kvjobs, database: Database, finished_job: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_rows: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(free_pages, "FIRST", 2)
    monkeypatch.setattr(free_pages, "MOST", 2)
    with pytest.raises(KeyboardInterrupt):
        prune.prune_jobs(database, [finished_job], interrupt)

    assert kvjobs("show", "nightly").exit_code == 5
    assert "being pruned" in kvjobs("show", finished_job).out
    with database.reading() as connection:
        assert connection.execute(select(tables.Job.content_key)).scalar_one() == f"pruned {finished_job}"
    assert kvjobs("db", "prune", finished_job, "--yes").exit_code == 0
    assert kvjobs("ls", "-q").out == ""


@ON_BOTH
def test_prune_by_age_deletes_only_old_jobs_that_have_ended(kvjobs: Kvjobs, add_job: AddJob, running_job: int) -> None:
    old = add_job(Line("a", "甲"), finished_s_ago=3 * 86400)
    young = add_job(Line("b", "乙"), finished_s_ago=86400)

    assert kvjobs("db", "prune", "--older-than", "2", "--yes").err.startswith("Deleted 1 job with 1 document.")
    assert kvjobs("ls", "-q").out == f"{young}\n{running_job}\n"
    assert "nothing was deleted" in kvjobs("db", "prune", "--older-than", "2", "--yes").err
    assert kvjobs("show", old).exit_code == 5


def test_prune_refuses_active_and_unknown_jobs(kvjobs: Kvjobs, finished_job: int, running_job: int) -> None:
    refused = kvjobs("db", "prune", finished_job, running_job, "--yes")

    assert refused.exit_code == 2
    assert "kvjobs cancel" in refused.err
    assert kvjobs("db", "prune", finished_job, "nobody", "--yes").exit_code == 5
    assert kvjobs("db", "prune").exit_code == 2
    assert kvjobs("db", "prune", finished_job, "--older-than", "1").exit_code == 2
    assert kvjobs("show", finished_job).exit_code == 0


def test_prune_of_a_job_that_is_being_cancelled_says_what_to_wait_for(
    kvjobs: Kvjobs, database: Database, running_job: int
) -> None:
    execute(database, f"UPDATE jobs SET cancel_requested_at = created_at WHERE id = {running_job}")

    refused = kvjobs("db", "prune", running_job, "--yes")

    assert refused.exit_code == 2
    assert (
        f"is cancelling; wait until workers have finished their batches of it: kvjobs wait {running_job}" in refused.err
    )


def test_prune_asks_for_confirmation_and_without_an_answer_deletes_nothing(
    kvjobs: Kvjobs, finished_job: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)

    result = kvjobs("db", "prune", finished_job)

    assert result.exit_code == 2
    assert "--yes" in result.err
    assert kvjobs("show", finished_job).exit_code == 0


def test_another_program_writes_while_a_prune_is_half_done(
    database: Database, add_job: AddJob, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(free_pages, "FIRST", 2)
    monkeypatch.setattr(free_pages, "MOST", 2)
    job = add_job(*(Line(str(number), "x", status=None) for number in range(6)))
    left: list[int] = []

    def write(_rows: int) -> None:
        with closing(sqlite3.connect(home / "kvjobs.db", timeout=0.0)) as other:
            other.execute("UPDATE workers SET stopped_at = heartbeat_at")
            other.commit()
        left.append(rows(database, result_tables.Translation, job) + rows(database, tables.Document, job))

    prune.prune_jobs(database, [job], write)

    assert left[:6] == [10, 8, 6, 4, 2, 0]


@ON_BOTH
def test_rejected_lines_have_no_tokens_in_the_counters(kvjobs: Kvjobs, database: Database, add_job: AddJob) -> None:
    job = add_job(Line("a", "甲"), Line(None, status=DocumentStatus.REJECTED, text=None))

    assert kvjobs("db", "check", job).exit_code == 0
