"""`kvjobs worker drain` with real workers: no shard is lost or done twice, and results are what they always are."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine, text

from tests.command_line import Kvjobs
from tests.databases import migrated, own_database
from tests.end_to_end.conftest import Bulletins
from tests.machine import PATIENCE_S, Machine, until

CORPORA, DOCUMENTS = 8, 5  # a shard each


@pytest.fixture(params=["sqlite", "postgresql"])
def store(machine: Machine, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Engine]:
    """The database of this test."""
    monkeypatch.setenv("KVJOBS_HEARTBEAT_S", "0.2")
    if request.param == "sqlite":
        yield (engine := create_engine(f"sqlite:///{machine.home / 'kvjobs.db'}"))
        engine.dispose()
        return
    with own_database() as url:
        monkeypatch.setenv("KVJOBS_DATABASE", migrated(url))
        yield (engine := create_engine(url))
        machine.end()
        engine.dispose()


def ask(store: Engine, sql: str) -> Sequence[object]:
    """The first column of a query."""
    with store.connect() as connection:
        return connection.execute(text(sql)).scalars().all()


def test_a_host_then_all_are_drained_in_mid_work_and_no_shard_is_lost_or_done_twice(
    store: Engine, machine: Machine, kvjobs: Kvjobs, bulletins: Bulletins, tmp_path: Path
) -> None:
    # A batch takes two seconds, longer than to submit the next corpus, so that both workers have a shard at a time.
    slow = {"KVJOBS_FAILPOINTS": "after-compute:sleep=2:100000", "KVJOBS_FAILPOINTS_LOG": str(tmp_path / "slow")}
    first = machine.start("worker", **slow)
    until(lambda: ask(store, "select id from workers"))
    second = machine.start("worker", **slow)
    until(lambda: ask(store, "select count(*) from workers") == [2])
    lines = bulletins(CORPORA * DOCUMENTS).read_text(encoding="utf-8").splitlines(keepends=True)
    for number in range(CORPORA):
        part = tmp_path / f"{number}.jsonl"
        part.write_text("".join(lines[number * DOCUMENTS : (number + 1) * DOCUMENTS]), encoding="utf-8")
        assert kvjobs("submit", part).exit_code == 0
    until(lambda: ask(store, "select count(distinct lease_owner) from shards where state = 'leased'") == [2])
    with store.begin() as connection:
        connection.execute(text("update workers set host = 'node-1' where id = (select min(id) from workers)"))

    drained = kvjobs("worker", "drain", "node-1", "--json")

    assert (drained.exit_code, [row["state"] for row in drained.json]) == (0, ["stopped"]), drained.err
    assert first.wait(PATIENCE_S) == 0
    assert second.poll() is None

    assert kvjobs("worker", "drain", "--all", "--timeout", PATIENCE_S).exit_code == 0
    assert second.wait(PATIENCE_S) == 0
    assert set(ask(store, "select state from shards")) <= {"ready", "done"}
    assert machine.kvjobs("worker", "--drain").returncode == 0  # which started after the order

    events = ask(store, "select event from shard_events where event not in ('leased', 'recorded')")
    assert events == ["finished"] * CORPORA
    assert len(set(ask(store, "select shard_id from shard_events where event = 'finished'"))) == CORPORA
    assert kvjobs("db", "check").exit_code == 0
    results = [exported(kvjobs, number, tmp_path) for number in range(1, CORPORA + 1)]
    alone = machine.kvjobs(
        "submit",
        "bulletins.jsonl",
        "--wait",
        "-o",
        "alone.jsonl",
        KVJOBS_HOME=str(tmp_path / "alone"),
        KVJOBS_DATABASE="",
    )
    assert alone.returncode == 0, alone.stderr
    assert "".join(results) == (machine.folder / "alone.jsonl").read_text(encoding="utf-8")


def exported(kvjobs: Kvjobs, job: int, folder: Path) -> str:
    """The results of a job."""
    file = folder / f"{job}.out.jsonl"
    assert kvjobs("export", job, "-o", file).exit_code == 0
    return file.read_text(encoding="utf-8")


def test_a_command_whose_own_worker_is_drained_starts_none_in_its_place(
    machine: Machine, kvjobs: Kvjobs, bulletins: Bulletins, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVJOBS_HEARTBEAT_S", "0.2")
    lines = bulletins(40).read_text(encoding="utf-8").splitlines()
    long = [json.loads(line) | {"text": " ".join([json.loads(line)["text"]] * 30)} for line in lines]  # several shards
    (machine.folder / "long.jsonl").write_text("".join(json.dumps(line) + "\n" for line in long), encoding="utf-8")
    submit = machine.start("submit", "long.jsonl", "--wait", "-o", "out.jsonl")
    until(machine.succeeded)

    drained = kvjobs("worker", "drain", "--all")

    assert drained.exit_code == 0, drained.err
    shards = machine.ask("select count(*) from shards where state = 'ready'")
    assert shards != [(0,)], "the job should have had more than one shard"
    assert submit.poll() is None
    assert machine.kvjobs("worker", "--drain").returncode == 0
    assert submit.wait(PATIENCE_S) == 0
    assert len((machine.folder / "out.jsonl").read_text(encoding="utf-8").splitlines()) == len(long)
    assert machine.ask("select asked_to from workers order by id") == [("drain",), (None,)]
