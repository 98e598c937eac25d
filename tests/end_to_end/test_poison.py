"""Documents that kill, hang or fail the real worker: they alone end badly. (How they do it, and more kinds:
tests/faults/poison.)"""

import json
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.end_to_end.conftest import Machine
from tests.places import TESTS
from worker.demo.examples import lines

INJECTION = TESTS / "faults" / "poison"
DOCUMENTS = 24  # two batches
SLOW = pytest.mark.timeout(180)


def write_corpus(folder: Path, poison: dict[int, str]) -> None:
    """Bulletins, some of which carry a marker."""
    rows = [json.loads(line) for line in lines(DOCUMENTS, seed=3, references=False)]
    for position, kind in poison.items():
        rows[position]["text"] += f" (({kind}))"
    (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def with_injection(machine: Machine, **variables: str) -> Machine:
    """The same machine, where markers do what they say."""
    path = os.pathsep.join(filter(None, [str(INJECTION), machine.environment.get("PYTHONPATH", "")]))
    return replace(machine, environment=machine.environment | {"PYTHONPATH": path} | variables)


def events(machine: Machine) -> Counter[str]:
    """How often each event happened."""
    told = machine.kvjobs("query", "select event, count(*) as n from v_shard_events group by event", "--json")
    return Counter({row["event"]: row["n"] for row in json.loads(told.stdout)})


def warm_deaths(happened: Counter[str]) -> int:
    """Of processes that held a lane's models."""
    return happened["lost"] + happened["expired"]


def exported(machine: Machine) -> list[str]:
    return machine.kvjobs("export", "1").stdout.splitlines()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The export of the same corpus without poison."""
    folder = tmp_path_factory.mktemp("undisturbed")
    write_corpus(folder, {})
    environment = {name: value for name, value in os.environ.items() if not name.startswith("KVJOBS_")}
    machine = Machine(folder, environment | {"KVJOBS_HOME": str(folder / "home"), "KVJOBS_LANES": "1"})
    done = machine.kvjobs("submit", "corpus.jsonl", "--wait")
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def assert_only_these_end_badly(
    machine: Machine, undisturbed: Sequence[str], status: str, codes: dict[int, str]
) -> None:
    found = exported(machine)
    for position, (line, wanted) in enumerate(zip(found, undisturbed, strict=True)):
        if position in codes:
            record = json.loads(line)
            assert (record["status"], record["error"]["code"]) == (status, codes[position])
        else:
            assert line == wanted
    check = machine.kvjobs("db", "check", "1")
    assert check.returncode == 0, check.stdout + check.stderr


@SLOW
def test_a_document_that_kills_is_quarantined_alone(machine: Machine, undisturbed: list[str]) -> None:
    write_corpus(machine.folder, {5: "segfault"})
    machine.kvjobs("submit", "corpus.jsonl")

    done = with_injection(machine).kvjobs("worker", "--drain", timeout=120)

    assert done.returncode == 0, done.stderr
    assert_only_these_end_badly(machine, undisturbed, "quarantined", {5: "killed"})
    happened = events(machine)
    assert (warm_deaths(happened), happened["died"], happened["quarantined"]) == (2, 3, 1)
    shown = machine.kvjobs("show", "1").stdout
    assert "1 document quarantined: killed" in shown
    assert "SIGSEGV" in shown
    assert "kvjobs retry 1" in shown


@SLOW
def test_two_poison_documents_of_two_kinds_in_one_batch_and_their_retry(
    machine: Machine, undisturbed: list[str]
) -> None:
    """What keeps the interpreter's lock is killed from outside of the interpreter."""
    write_corpus(machine.folder, {5: "spin", 6: "exit"})
    poisoned = with_injection(machine, KVJOBS_HANG_S="2", KVJOBS_LEASE_S="1", KVJOBS_HEARTBEAT_S="0.25")

    done = poisoned.kvjobs("submit", "corpus.jsonl", "--wait", "-o", "out.jsonl", timeout=120)

    assert done.returncode == 3, done.stderr
    assert_only_these_end_badly(machine, undisturbed, "quarantined", {5: "hung", 6: "killed"})
    happened = events(machine)
    assert (warm_deaths(happened), happened["died"], happened["quarantined"]) == (2, 5, 2)

    assert machine.kvjobs("retry", "1").returncode == 0
    assert machine.kvjobs("worker", "--drain").returncode == 0
    assert all(json.loads(line)["status"] == "ok" for line in exported(machine))
    assert machine.kvjobs("db", "check", "1").returncode == 0


@SLOW
def test_documents_that_fail_without_killing_cost_no_process(machine: Machine, undisturbed: list[str]) -> None:
    write_corpus(machine.folder, {5: "raise", 7: "nan", 20: "allocate"})

    done = with_injection(machine).kvjobs("submit", "corpus.jsonl", "--wait", timeout=120)

    assert done.returncode == 3, done.stderr
    codes = {5: "engine-error", 7: "non-finite", 20: "engine-error"}
    assert_only_these_end_badly(machine, undisturbed, "failed", codes)
    assert "MemoryError" in json.loads(done.stdout.splitlines()[20])["error"]["message"]
    assert set(events(machine)) == {"leased", "recorded", "finished"}


@SLOW
def test_a_model_that_always_kills_pauses_its_job_and_quarantines_nothing(machine: Machine) -> None:
    write_corpus(machine.folder, {})
    machine.kvjobs("submit", "corpus.jsonl")

    done = with_injection(machine, KVJOBS_TEST_POISON_ALL="exit").kvjobs("worker", "--drain", timeout=120)

    assert done.returncode == 0, done.stderr
    (job,) = json.loads(machine.kvjobs("ls", "--all", "--json").stdout)
    assert job["paused"]
    assert "not the documents" in job["reason"]
    assert (job["quarantined"], job["failed"]) == (0, 0)
    happened = events(machine)
    assert (warm_deaths(happened), happened["died"]) == (2, 7)
