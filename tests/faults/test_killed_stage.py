"""A job of a split model whose stages run in processes of their own, which are killed in mid-job."""

import os
import random
import signal
from pathlib import Path

from tests.command_line import Kvjobs
from tests.machine import PATIENCE_S, Machine, until
from tools.demo.examples import lines

DOCUMENTS, KILLS = 300, 3


def test_a_killed_stage_costs_its_batch_and_no_document(machine: Machine, kvjobs: Kvjobs) -> None:
    corpus = machine.folder / "corpus.jsonl"
    corpus.write_text("".join(lines(DOCUMENTS, seed=4, references=False)))
    machine.kvjobs("models", "split", "demo-lm", "--stages", "2", "--separate", "--name", "separate")
    kvjobs("submit", corpus, "--task", "score", "--model", "separate")
    kvjobs("submit", corpus, "--task", "score", "--model", "demo-lm")
    worker = machine.worker("--drain")

    rng = random.Random(4)
    for killed in range(1, KILLS + 1):
        wanted = killed * 20
        until(lambda wanted=wanted: stages_below(worker.pid) and recorded(machine) >= wanted)
        os.kill(rng.choice(stages_below(worker.pid)), signal.SIGKILL)
        until(lambda killed=killed: crashes(machine) >= killed or job_is_over(machine))
    out, err = worker.communicate(timeout=PATIENCE_S)

    assert worker.returncode == 0, out + err
    assert "was killed by SIGKILL (signal 9); its batch is computed again" in err
    assert "Traceback" not in err
    assert kvjobs("db", "check", 1).exit_code == 0
    (counts,) = machine.ask("select succeeded, failed, quarantined from job_counts where job_id = 1")
    assert tuple(counts) == (DOCUMENTS, 0, 0)
    assert kvjobs("export", 1).out == kvjobs("export", 2).out
    phases = dict(machine.ask("select phase, calls from v_phases where job_id = 1"))
    assert phases["stage.0"] == phases["stage.1"] == phases["prefill"]


def recorded(machine: Machine) -> int:
    return int(machine.ask("select succeeded from job_counts where job_id = 1")[0][0])


def crashes(machine: Machine) -> int:
    """How often a batch of the job was given back because a stage died."""
    return int(machine.ask("select count(*) from shard_events where job_id = 1 and event = 'released'")[0][0])


def job_is_over(machine: Machine) -> bool:
    return bool(machine.ask("select 1 from jobs where id = 1 and state = 'done'"))


def stages_below(pid: int) -> list[int]:
    """The processes of stages that a worker has started, by whichever of its processes."""
    found = []
    for thread in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, thread.read_text().split()):
            try:
                command = Path(f"/proc/{child}/cmdline").read_bytes()
                found += [child] if b"stage_program" in command else stages_below(child)
            except OSError:  # it has just ended
                continue
    return found
