"""Faults of a model's files: a file that workers have mapped into memory is written to, or replaced."""

import shutil
from pathlib import Path

import numpy as np
from sqlalchemy import select

from jobs.store.schema.lasting_tables import MemoryEntry
from jobs.store.schema.tables import Job
from tests.faults.trial import Trial
from tests.machine import PATIENCE_S
from worker.models.registry import BUNDLED, DEFAULT_MODEL


def overwritten(trial: Trial) -> None:
    """Other weights are written into the file that workers have mapped, then another file takes its name: each time
    the job is paused, and goes on once the file is put back and the job resumed."""
    model = trial.home / "models" / DEFAULT_MODEL
    shutil.copytree(BUNDLED[DEFAULT_MODEL], model)  # it hides the bundled model of that name
    weights = model / "weights.data"
    right = weights.read_bytes()
    trial.submit()
    # A fast lane computes a shard at once: without a pause the job could be over before a change is noticed.
    trial.keep_workers(2, KVJOBS_LANES="1", KVJOBS_FAILPOINTS="after-commit:sleep=3:1000")
    for change in (_write_into, _replace):
        trial.until_num_ended(trial.num_ended() + 1)
        change(weights, _others(weights))
        trial.until(lambda: trial.state() == "paused", "the job is paused", timeout=PATIENCE_S)
        ((reason,),) = trial.query(select(Job.reason)) or [("",)]
        trial.expect("the files of model" in reason, f"the job is paused for another reason: {reason}")
        trial.expect(trial.num_ended() < trial.corpus.documents, "the job was over; give it more documents")
        _write_into(weights, right)
        resumed = trial.kvjobs("resume", str(trial.job_id))
        trial.expect(resumed.returncode == 0, f"resume was refused: {resumed.stderr}")
        trial.fault_ended()
    trial.until_over()
    trial.check(deaths=0)
    _compare_memories(trial)


def _others(weights: Path) -> bytes:
    """Weights with which the model runs but gives other results: the first half of the file, twice."""
    content = np.fromfile(weights, np.uint8)
    return np.resize(content[: len(content) // 2], len(content)).tobytes()


def _write_into(file: Path, content: bytes) -> None:
    with file.open("r+b") as opened:
        opened.write(content)


def _replace(file: Path, content: bytes) -> None:
    new = file.with_name(".new")
    new.write_bytes(content)
    new.replace(file)


def _compare_memories(trial: Trial) -> None:
    """The translation memory equals that of an undisturbed run."""
    expected = {row["key"]: row["texts"] for row in trial.corpus.memory()}
    learned = trial.query(select(MemoryEntry.key, MemoryEntry.texts)) or []
    wrong = sum(expected.get(key) != texts for key, texts in learned)
    trial.expect(not wrong, f"{wrong} of {len(learned)} segments in the translation memory are wrong")
    trial.expect(len(learned) == len(expected), f"{len(learned)} segments were learned, not {len(expected)}")
