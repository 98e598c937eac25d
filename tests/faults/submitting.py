"""Faults during a submit: it is killed, runs twice at once, or its file changes."""

import hashlib
import json
import time
from pathlib import Path

from sqlalchemy import select

from jobs.store.report.recount.consistency_check import find_contradictions
from jobs.store.schema.tables import Document, Job, Shard
from tests.faults.trial import Trial

LINES = 45_000  # three transactions of an ingest; see jobs.submission.shards.BATCH_DOCUMENTS
FIRST_WORDS = "Corpus "  # begins the first line, the only one that differs between the corpora


def killed(trial: Trial) -> None:
    """kill -9 of the submit at random moments, and at its two failpoints; the same command, run again, continues it."""
    expected = _undisturbed(trial)
    for name, times in (("after-ingest-batch", 2), ("before-ingest-finish", 1)):
        path = _write(trial, name)
        point = f"{name}:kill:{times}"
        tries = 0
        while tries <= times and trial.kvjobs("submit", str(path), KVJOBS_FAILPOINTS=point).returncode:
            tries += 1
        trial.expect(trial.hits()[name] == times, f"the submit came to the failpoint {name} {trial.hits()[name]} times")
        _compare(trial, path, expected)
    path, kills = _write(trial, "killed at random"), 0
    for _ in range(12 if trial.long else 4):
        command = trial.start("submit", str(path))
        time.sleep(trial.rng.uniform(0.4, 1.8))
        if not command.is_running:
            break
        trial.kill(command.pid, holds_leases=False)
        command.process.wait()
        kills += 1
    trial.expect(trial.kvjobs("submit", str(path)).returncode == 0, "the last submit failed")
    _compare(trial, path, expected)
    trial.notes.append(f"{kills} kills at random")


def twice_at_once(trial: Trial) -> None:
    """Two submits of one corpus at the same time, one of which may be killed: one job, each document once."""
    expected = _undisturbed(trial)
    path = _write(trial, "two at once")
    commands = [trial.start("submit", str(path)) for _ in range(2)]
    codes = [command.process.wait(timeout=120) for command in commands]
    trial.expect(codes == [0, 0], f"two submits at once ended with {codes}\n{trial.log_tail()}")
    _compare(trial, path, expected)
    path = _write(trial, "three at once and one is killed")
    commands = [trial.start("submit", str(path)) for _ in range(3)]
    time.sleep(trial.rng.uniform(0.8, 2.0))
    trial.kill(commands[0].pid, holds_leases=False)
    codes = [command.process.wait(timeout=120) for command in commands][1:]
    trial.expect(codes == [0, 0], f"of three submits one was killed, the others ended with {codes}")
    _compare(trial, path, expected)


def changed_file(trial: Trial) -> None:
    """A submit is killed half-way and its file changes: the next one is refused with exit code 2, nothing is mixed."""
    expected = _undisturbed(trial)
    for number in range(20):
        path = _write(trial, f"changing {number}")
        command = trial.start("submit", str(path))
        trial.until(lambda p=path, h=command: _jobs(trial, p) or not h.is_running, "there is a job", timeout=60)
        trial.kill(command.pid, holds_leases=False)
        command.process.wait()
        if [job.state for job in _jobs(trial, path)] == ["ingesting"]:
            break
    else:
        trial.expect(False, "every submit ended before the kill")
        return
    was = path.read_bytes()
    path.write_bytes(was.replace(b"number 7 ", b"number VII ", 1))
    changed = trial.kvjobs("submit", str(path))
    trial.expect(changed.returncode == 2, f"a changed file: exit code {changed.returncode}, not 2: {changed.stderr}")
    trial.expect(len(_jobs(trial, path)) == 1, "a changed file became another job")
    path.write_bytes(was)
    trial.expect(trial.kvjobs("submit", str(path)).returncode == 0, "the restored file is refused too")
    _compare(trial, path, expected)


def _write(trial: Trial, name: str) -> Path:
    """Write a corpus with some empty texts and some duplicate ids."""
    path = trial.folder / f"{name.replace(' ', '-')}.jsonl"
    with path.open("w", encoding="utf-8") as file:
        file.write(json.dumps({"id": "first", "text": FIRST_WORDS + name}) + "\n")
        for number in range(1, LINES):
            text = "" if number % 1000 == 999 else f"Line number {number} of many."
            file.write(json.dumps({"id": number if number % 5000 != 4998 else 1, "text": text}) + "\n")
    return path


def _undisturbed(trial: Trial) -> str:
    """The digest of the job that an undisturbed submit makes."""
    path = _write(trial, "undisturbed")
    done = trial.kvjobs("submit", str(path))
    trial.expect(done.returncode == 0, f"submit ended with {done.returncode}: {done.stderr}")
    return _digest(trial, _jobs(trial, path)[0].id)


def _jobs(trial: Trial, path: Path) -> list[object]:
    return trial.query(select(Job.id, Job.state).where(Job.source.contains(path.name))) or []


def _digest(trial: Trial, job_id: int) -> str:
    """A hash of the documents, except for the first one's text, and of the shards."""
    columns = (Document.position, Document.external_id, Document.line, Document.status, Document.error, Document.text)
    document = select(*columns).where(Document.job_id == job_id).order_by(Document.position)
    shard = select(Shard.start, Shard.stop, Shard.state).where(Shard.job_id == job_id).order_by(Shard.start, Shard.id)
    with trial.database.reading() as connection:
        documents = [tuple(row) for row in connection.execute(document)]
        shards = [tuple(row) for row in connection.execute(shard)]
    documents[0] = documents[0][:-1]
    return hashlib.sha256(repr((documents, shards)).encode()).hexdigest()


def _compare(trial: Trial, path: Path, expected: str) -> None:
    jobs = _jobs(trial, path)
    trial.expect([job.state for job in jobs] == ["running"], f"{path.stem}: the jobs are {jobs}")
    for job in jobs:
        with trial.database.reading() as connection:
            trial.violations.extend(f"{path.stem}: {sentence}" for sentence in find_contradictions(connection, job.id))
        same = _digest(trial, job.id) == expected
        trial.expect(same, f"{path.stem}: documents or shards differ from those of an undisturbed submit")
