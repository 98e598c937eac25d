"""An upgrade keeps every row of an older database."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, insert, inspect, make_url, text

from jobs.store.database import Database
from jobs.store.queue import deaths, leases
from jobs.store.schema import result_tables, tables
from jobs.store.schema.clock import db_time
from jobs.store.schema.migrate import differences, upgrade
from jobs.store.schema.results import as_stored
from jobs.store.schema.rollup_tables import SUMS, RecordedBatch
from tests.databases import ON_SQLITE, as_superuser, own_database
from tests.machine import PATIENCE_S
from tests.rows import insert_waiting_job, translated
from tests.store.schema.older_database import MadeOnce, copied, made_of_each_kind

BEFORE_TOKENS = "0003"
NEW_IN_JOBS = ("chain", "stage", "reads", "paused_at", "owner", "notify")  # null in older rows
ASKED = ("asked_to", "asked_by", "asked_at")  # of a worker
ADDED_LATER = (
    "segments",
    "via",
    "via_log_prob",
    "via_target_tokens",
    "via_source_tokens",
    "via_segments",
    "unknown_share",
    "alignments",
)
Rows = dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MadeOnce]:
    """Databases of version 0003: two jobs, of which the first has an open lease, and the log of a third shard that is
    gone."""
    with made_of_each_kind(_make_older, tmp_path_factory.mktemp("older")) as made:
        yield made


@pytest.fixture
def database(request: pytest.FixtureRequest, older: MadeOnce, tmp_path: Path) -> Iterator[Database]:
    with copied(older(request.param), tmp_path) as database:
        yield database


def _make_older(database: Database) -> None:
    upgrade(database.engine, BEFORE_TOKENS)
    first, _second = (insert_waiting_job(database, documents=4, per_shard=2) for _ in range(2))
    with database.writing() as connection:
        worker = {"host": "h", "machine": "m", "pid": 1, "process_started": 1.0, "version": "0", "device": "cpu"}
        worker |= {"provider": "p", "lanes": 1, "models": "{}", "kv_bytes": 0, "buffer_allocations": 0}
        times = {"started_at": db_time(), "heartbeat_at": db_time()}
        connection.execute(insert(tables.Worker).values(**worker, buffer_reuses=0, **times))
        connection.execute(text("UPDATE shards SET state = 'leased', lease_owner = 8, lease_epoch = 1 WHERE id = 1"))
        connection.execute(
            insert(result_tables.Translation).values(
                **{name: value for name, value in as_stored(translated("x")).items() if name not in ADDED_LATER},
                job_id=first,
                position=2,
                shard_id=2,
                epoch=1,
                worker_id=1,
                finished_at=db_time(),
            )
        )
        log = {"job_id": first, "shard_id": 77, "at": db_time(), "event": "leased", "epoch": 1, "worker_id": 9}
        connection.execute(insert(tables.ShardEvent).values(log))


def rows(database: Database) -> Rows:
    """Every row of every table."""
    with database.reading() as connection:
        names = [name for name in inspect(connection).get_table_names() if name != "alembic_version"]
        keys = {name: inspect(connection).get_pk_constraint(name)["constrained_columns"] for name in names}
        statements = {name: text(f"SELECT * FROM {name} ORDER BY {', '.join(keys[name])}") for name in names}
        return {name: [dict(row) for row in connection.execute(statements[name]).mappings()] for name in names}


def test_an_upgrade_keeps_every_row(database: Database) -> None:
    before = rows(database)

    upgrade(database.engine)

    after = rows(database)
    assert all(row.pop("lease_token") is None for row in after["shards"])
    assert after.pop("score_memory") == after.pop("job_actions") == after.pop("verifications") == []
    assert all(row.pop("documents_reused") == row.pop("skipped") == 0 for row in after["job_counts"])
    assert all(row.pop("num_reused") == 0 for row in after["scores"])
    assert {row.pop(name) for row in after["translations"] for name in ADDED_LATER} == {None}
    assert {(row.pop("route"), row.pop("own_options")) for row in after["documents"]} == {(None, None)}
    assert [row.pop("provider") for row in after["translations"]] == ["onnx"]
    assert [row.pop("providers") for row in after["jobs"]] == [None, None]
    assert {row.pop(name) for row in after["jobs"] for name in NEW_IN_JOBS} == {None}
    assert {row.pop("idle_s") for row in after["jobs"]} == {0.0}
    assert {(row.pop("is_open"), row.pop("closed_at")) for row in after["jobs"]} == {(False, None)}
    assert {row.pop(name) for row in after["workers"] for name in (*ASKED, "parent_pid")} == {None}
    assert [row.pop("killed") for row in after["workers"]] == [False]
    providers = [(row["job_id"], row["provider"], row["model"]) for row in after.pop("job_providers")]
    assert providers == [(1, "onnx", "opus-mt-en-zh"), (2, "onnx", "opus-mt-en-zh")]
    assert after.pop("provider_changes") == after.pop("handover_counts") == after.pop("generations") == []
    assert after.pop("passes") == after.pop("tokens") == after.pop("webhook_deliveries") == []
    assert after.pop("uploaded_files") == after.pop("openai_batches") == []
    assert after.pop("job_files") == after.pop("imported_units") == after.pop("glossaries") == after.pop("deltas") == []
    assert after.pop("job_turns") == [{"job_id": 1}, {"job_id": 2}]
    assert after.pop("cache_reports") == after.pop("cache_report_steps") == []
    rollups = {rollup.__tablename__: after.pop(rollup.__tablename__) for rollup in (*SUMS, RecordedBatch)}
    assert {name for name, found in rollups.items() if found} == {"minute_sums", "measure_counts"}  # of a translation
    assert after == before
    assert {name: len(found) for name, found in after.items() if found} == {
        "jobs": 2,
        "documents": 8,
        "shards": 4,
        "job_counts": 2,
        "workers": 1,
        "translations": 1,
        "shard_events": 1,
    }
    assert differences(database.engine) == []


def test_work_continues_after_an_upgrade(database: Database) -> None:
    upgrade(database.engine)

    deaths.expire_workers(database, [8])

    work = leases.lease(database, 1, 0, 60.0)
    assert work is not None
    assert (work.shard_id, work.epoch, [d.position for d in work.batches[0]]) == (1, 3, [0, 1])


@ON_SQLITE
def test_new_ids_in_an_upgraded_file_are_above_all_earlier_ones(database: Database) -> None:
    upgrade(database.engine)

    with database.reading() as connection:
        given = connection.execute(text("SELECT name, seq FROM sqlite_sequence"))
        numbers = {row.name: row.seq for row in given}
        made = connection.execute(text("SELECT name FROM sqlite_master WHERE sql LIKE '%AUTOINCREMENT%'")).scalars()
        assert set(made) == {"jobs", "shards", "workers"}
    assert numbers == {"jobs": 2, "shards": 77, "workers": 9}


@ON_SQLITE
def test_foreign_keys_are_enforced_again_after_an_upgrade(database: Database) -> None:
    upgrade(database.engine)

    with database.writing() as connection:
        connection.execute(delete(tables.Job).where(tables.Job.id == 1))

    assert {row["job_id"] for row in rows(database)["documents"]} == {2}


def test_a_missing_index_by_an_expression_is_a_difference(database: Database) -> None:
    upgrade(database.engine)
    with database.writing() as connection:
        connection.exec_driver_sql("DROP INDEX ix_scores_job_id_mean")

    found = differences(database.engine)

    with database.writing() as connection:
        index = next(
            one for one in tables.Base.metadata.tables["scores"].indexes if one.name == "ix_scores_job_id_mean"
        )
        index.create(connection)
    assert len(found) == 1
    assert "ix_scores_job_id_mean" in found[0]
    assert differences(database.engine) == []


def test_of_two_upgrades_at_once_the_second_waits_for_no_lock_that_anybody_can_take() -> None:
    number_in_older_versions = 0x6B766A6F
    with own_database() as url, ThreadPoolExecutor() as threads:
        databases = [Database.connect(url, busy_timeout_s=PATIENCE_S, silence_s=PATIENCE_S) for _ in range(2)]
        with as_superuser(make_url(url).database) as anybody:
            anybody.execute(text(f"SELECT pg_advisory_lock({number_in_older_versions})"))

            list(threads.map(lambda database: upgrade(database.engine), databases))

        assert differences(databases[0].engine) == []
        for database in databases:
            database.close()
