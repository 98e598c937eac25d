"""Faults of identity: a worker is stopped while the ids of its job and shard come to mean others."""

import contextlib
import json
import os
import re
import signal
import sqlite3
from pathlib import Path

from sqlalchemy import func, select

from jobs.store.schema.tables import Job
from tests.faults.processes import Command
from tests.faults.trial import Trial


def frozen_across_prune(trial: Trial) -> None:
    """SIGSTOP with a batch of one job computed; another worker finishes the job, it is pruned, and the next one is
    submitted and begun; SIGCONT: no result of the first is recorded in the second."""
    frozen = _freeze_with_a_batch_of_another_job(trial, heartbeat_s=5)
    other = trial.worker()
    trial.until(lambda: trial.events("expired"), "its lease is taken back")
    trial.until_over()
    other.terminate()
    pruned = trial.kvjobs("db", "prune", "1", "--yes")
    trial.expect(pruned.returncode == 0, f"prune ended with {pruned.returncode}: {pruned.stderr}")
    _wake_into_the_next_job(trial, frozen)


def frozen_across_restore(trial: Trial) -> None:
    """SIGSTOP with a batch of one job computed; the database is restored from an older copy, and the next job is
    submitted, gets the same ids, and is begun; SIGCONT: no result of the first is recorded in the second."""
    backup = trial.folder / "backup"
    if trial.postgres:
        trial.postgres.dump(backup)
    else:
        _copy(trial.home / "kvjobs.db", backup)
    frozen = _freeze_with_a_batch_of_another_job(trial, heartbeat_s=30)
    if trial.postgres:
        trial.postgres.restore(backup)
    else:
        _copy(backup, trial.home / "kvjobs.db")
    _wake_into_the_next_job(trial, frozen)
    trial.expect(trial.job_id == 1, f"the job that came after the restore has the number {trial.job_id}")


def _freeze_with_a_batch_of_another_job(trial: Trial, heartbeat_s: int) -> tuple[int, int]:
    """The process ids of child and parent, which would end the child. It is not stopped in the middle of a heartbeat:
    on SQLite no other process could write then."""
    trial.environment |= {"KVJOBS_HEARTBEAT_S": str(heartbeat_s), "KVJOBS_LEASE_S": str(2 * heartbeat_s)}
    trial.environment["KVJOBS_LANES"] = "1"
    other_texts = trial.folder / "other.jsonl"
    other_texts.write_text("".join(map(_with_sentences_reversed, trial.corpus.path.read_text().splitlines())))
    trial.submit(corpus=other_texts)
    worker = trial.worker(KVJOBS_FAILPOINTS="after-compute:stop")
    child = _freeze(trial, worker, hits=1)
    worker.send(signal.SIGSTOP)
    return child, worker.pid


def _wake_into_the_next_job(trial: Trial, frozen: tuple[int, int]) -> None:
    """SIGCONT while another worker computes the same batch of the next job."""
    trial.submit()
    newest = trial.query(select(func.max(Job.id)))
    assert newest
    trial.job_id = int(newest[0][0])
    begun = _freeze(trial, trial.worker(KVJOBS_FAILPOINTS="after-compute:stop:2"), hits=2)
    trial.deaths += 1
    for pid in frozen:
        os.kill(pid, signal.SIGCONT)
    trial.until(lambda: trial.logged("results dropped"), "the late commit is refused", timeout=30)
    trial.fault_ended()
    with contextlib.suppress(ProcessLookupError):
        os.kill(begun, signal.SIGCONT)
    trial.until_over()
    trial.check()


def _freeze(trial: Trial, worker: Command, hits: int) -> int:
    trial.until(lambda: trial.hits()["after-compute"] == hits, "a child stops itself after a batch is computed", 30)
    child = worker.child()
    assert child is not None
    return child


def _with_sentences_reversed(line: str) -> str:
    """The same document with its sentences in another order: the same number of bytes, so the same batches."""
    record = json.loads(line)
    record["text"] = " ".join(reversed(re.split(r"(?<=[.!?])\s", record["text"])))
    return json.dumps(record, ensure_ascii=False) + "\n"


def _copy(source: Path, target: Path) -> None:
    """Copy into the existing file, as SQLite's `.restore` does: programs that have it open see the other database."""
    with contextlib.closing(sqlite3.connect(source)) as one, contextlib.closing(sqlite3.connect(target)) as other:
        one.backup(other)
