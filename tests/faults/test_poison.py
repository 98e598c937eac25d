"""Documents that kill, hang or fail the real worker: only these do not succeed. (How they do it, and more kinds:
tests/faults/poison.)"""

import json
import os
from collections import Counter
from pathlib import Path

from tests.command_line import Kvjobs
from tests.machine import Machine
from tests.places import TESTS
from tools.demo.examples import lines

DOCUMENTS = 24  # two batches


def write_corpus(path: Path, poison: dict[int, str]) -> Path:
    """Write a corpus of bulletins; `poison`: position -> the marker that its text gets."""
    rows = [json.loads(line) for line in lines(DOCUMENTS, seed=3, references=False)]
    for position, kind in poison.items():
        rows[position]["text"] += f" (({kind}))"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def submit_poison(kvjobs: Kvjobs, poison: dict[int, str]) -> None:
    """Submit the corpus with the poison as job 1, and without it as job 2, which reuses no result of job 1."""
    kvjobs("submit", write_corpus(Path("corpus.jsonl"), poison))
    kvjobs("submit", write_corpus(Path("clean.jsonl"), {}), "--no-reuse")


def drain(machine: Machine, **variables: str) -> None:
    """Run a worker in which the markers take effect, until no work is left."""
    injection = str(TESTS / "faults" / "poison")
    path = os.pathsep.join(filter(None, [injection, os.environ.get("PYTHONPATH", "")]))
    done = machine.kvjobs("worker", "--drain", PYTHONPATH=path, **variables)
    assert done.returncode == 0, done.stderr


def assert_only_these_do_not_succeed(kvjobs: Kvjobs, status: str, codes: dict[int, str]) -> None:
    """Also check that every other document of job 1 has the same result as in job 2, the corpus without poison."""
    assert kvjobs("wait", 1).exit_code == 3
    assert kvjobs("db", "check", 1).exit_code == 0
    clean = kvjobs("export", 2).out.splitlines()
    for position, (line, expected) in enumerate(zip(kvjobs("export", 1).out.splitlines(), clean, strict=True)):
        if position in codes:
            record = json.loads(line)
            assert (record["status"], record["error"]["code"]) == (status, codes[position])
        else:
            assert line == expected


def events(machine: Machine) -> Counter[str]:
    """How often each event happened to job 1."""
    return Counter(event for (event,) in machine.ask("select event from v_shard_events where job_id = 1"))


def warm_deaths(happened: Counter[str]) -> int:
    """The number of deaths of processes that run lanes, not of sandboxes."""
    return happened["lost"] + happened["expired"]


def test_documents_that_kill_or_hang_in_one_batch_are_quarantined_alone_and_can_be_retried(
    machine: Machine, kvjobs: Kvjobs
) -> None:
    """A document that never releases the interpreter's lock is killed by a thread outside the interpreter."""
    submit_poison(kvjobs, {5: "spin", 6: "segfault"})

    drain(machine, KVJOBS_HANG_S="1.5", KVJOBS_LEASE_S="1", KVJOBS_HEARTBEAT_S="0.25")

    assert_only_these_do_not_succeed(kvjobs, "quarantined", {5: "hung", 6: "killed"})
    happened = events(machine)
    assert (warm_deaths(happened), happened["died"], happened["quarantined"]) == (2, 5, 2)
    shown = kvjobs("show", 1).out
    assert "1 document quarantined: killed" in shown
    assert "SIGSEGV" in shown
    assert "kvjobs retry 1" in shown

    kvjobs("retry", 1)
    machine.kvjobs("worker", "--drain")

    assert all(json.loads(line)["status"] == "ok" for line in kvjobs("export", 1).out.splitlines())
    assert kvjobs("db", "check", 1).exit_code == 0


def test_documents_that_fail_without_killing_cost_no_process(machine: Machine, kvjobs: Kvjobs) -> None:
    submit_poison(kvjobs, {5: "raise", 7: "nan", 20: "allocate"})

    drain(machine)

    assert_only_these_do_not_succeed(kvjobs, "failed", {5: "engine-error", 7: "non-finite", 20: "engine-error"})
    assert "MemoryError" in json.loads(kvjobs("export", 1).out.splitlines()[20])["error"]["message"]
    assert set(events(machine)) == {"leased", "recorded", "finished"}


def test_a_model_that_always_kills_pauses_its_job_and_quarantines_nothing(machine: Machine, kvjobs: Kvjobs) -> None:
    kvjobs("submit", write_corpus(Path("corpus.jsonl"), {}))

    drain(machine, KVJOBS_TEST_POISON_ALL="exit")

    (job,) = kvjobs("ls", "--all", "--json").json
    assert job["paused"]
    assert "not the documents" in job["reason"]
    assert (job["quarantined"], job["failed"]) == (0, 0)
    happened = events(machine)
    assert (warm_deaths(happened), happened["died"]) == (2, 7)
