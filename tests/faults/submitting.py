"""Faults while a corpus is read: the submit is killed, runs twice at once, or finds another file."""

import hashlib
import json
import time
from pathlib import Path

from sqlalchemy import select

from jobs.store.report.consistency_check import find_contradictions
from jobs.store.schema.tables import Document, Job, Shard
from tests.faults.trial import Trial

LINES = 45_000  # three transactions of an ingest; see jobs.submission.shards.BATCH_DOCUMENTS
FIRST_WORDS = "Corpus "  # of the first line, which alone tells one corpus from another


def killed(trial: Trial) -> None:
    """kill -9 of the submit at random moments, and at its two named places; the same command again goes on."""
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
        hand = trial.start("submit", str(path))
        time.sleep(trial.chance.uniform(0.4, 1.8))
        if not hand.is_running:
            break
        trial.kill(hand.pid, holds_leases=False)
        hand.process.wait()
        kills += 1
    trial.expect(trial.kvjobs("submit", str(path)).returncode == 0, "the last submit failed")
    _compare(trial, path, expected)
    trial.notes.append(f"{kills} kills at random")


def twice_at_once(trial: Trial) -> None:
    """Two submits of one corpus at the same time, one of which may be killed: one job, each document once."""
    expected = _undisturbed(trial)
    path = _write(trial, "two at once")
    hands = [trial.start("submit", str(path)) for _ in range(2)]
    codes = [hand.process.wait(timeout=120) for hand in hands]
    trial.expect(codes == [0, 0], f"two submits at once ended with {codes}\n{trial.last_words()}")
    _compare(trial, path, expected)
    path = _write(trial, "three at once and one is killed")
    hands = [trial.start("submit", str(path)) for _ in range(3)]
    time.sleep(trial.chance.uniform(0.8, 2.0))
    trial.kill(hands[0].pid, holds_leases=False)
    codes = [hand.process.wait(timeout=120) for hand in hands][1:]
    trial.expect(codes == [0, 0], f"of three submits one was killed, the others ended with {codes}")
    _compare(trial, path, expected)


def changed_file(trial: Trial) -> None:
    """A submit is killed half-way and its file changes: refused, with exit code 2, and nothing is mixed."""
    expected = _undisturbed(trial)
    for number in range(20):
        path = _write(trial, f"changing {number}")
        hand = trial.start("submit", str(path))
        trial.until(lambda p=path, h=hand: _jobs(trial, p) or not h.is_running, "there is a job", timeout=60)
        trial.kill(hand.pid, holds_leases=False)
        hand.process.wait()
        if [job.state for job in _jobs(trial, path)] == ["ingesting"]:
            break
    else:
        trial.expect(False, "the submit was always quicker than the kill")
        return
    was = path.read_bytes()
    path.write_bytes(was.replace(b"number 7 ", b"number VII ", 1))
    changed = trial.kvjobs("submit", str(path))
    trial.expect(changed.returncode == 2, f"a changed file: exit code {changed.returncode}, not 2: {changed.stderr}")
    trial.expect(len(_jobs(trial, path)) == 1, "a changed file became another job")
    path.write_bytes(was)
    trial.expect(trial.kvjobs("submit", str(path)).returncode == 0, "the file as it was is refused too")
    _compare(trial, path, expected)


def _write(trial: Trial, name: str) -> Path:
    """A corpus with empty lines and ids that come twice, now and then."""
    path = trial.folder / f"{name.replace(' ', '-')}.jsonl"
    with path.open("w", encoding="utf-8") as file:
        file.write(json.dumps({"id": "first", "text": FIRST_WORDS + name}) + "\n")
        for number in range(1, LINES):
            text = "" if number % 1000 == 999 else f"Line number {number} of many."
            file.write(json.dumps({"id": number if number % 5000 != 4998 else 1, "text": text}) + "\n")
    return path


def _undisturbed(trial: Trial) -> str:
    """What one quiet submit makes of it."""
    path = _write(trial, "quiet")
    done = trial.kvjobs("submit", str(path))
    trial.expect(done.returncode == 0, f"submit ended with {done.returncode}: {done.stderr}")
    return _digest(trial, _jobs(trial, path)[0].id)


def _jobs(trial: Trial, path: Path) -> list[object]:
    return trial.ask(select(Job.id, Job.state).where(Job.source.contains(path.name))) or []


def _digest(trial: Trial, job_id: int) -> str:
    """Over the documents, but for the first one's text, and over the shards."""
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
            trial.complaints.extend(f"{path.stem}: {sentence}" for sentence in find_contradictions(connection, job.id))
        same = _digest(trial, job.id) == expected
        trial.expect(same, f"{path.stem}: documents or shards differ from those of a quiet submit")
