"""Faults of workers that process a chain: translated, scored, filtered."""

from sqlalchemy import select

from jobs.store.report.recount.consistency_check import find_contradictions
from jobs.store.schema.states import ShardState
from jobs.store.schema.tables import Document, Job, Shard
from tests.faults.corpus import Corpus
from tests.faults.trial import Trial

STAGES = ("--then", "score --no-reuse", "--then", "filter perplexity < 160000 and num_target_tokens > 5")
JOBS = (1, 2, 3)
SHORT = 48  # documents
WITH_MODEL = JOBS[:2]
IN_TRANSACTIONS = ("in-hand-on", "in-finish", "after-commit")


def killed_in_each_stage(trial: Trial) -> None:
    """kill -9 in the middle of each stage, and in the transactions that hand documents on: every document is in each
    stage exactly once, and the export is that of an undisturbed run."""
    if not trial.long:
        trial.corpus = Corpus.write(trial.folder / "short.jsonl", SHORT)
    baseline = _undisturbed(trial)
    trial.submit(*STAGES)
    places = IN_TRANSACTIONS if trial.long else IN_TRANSACTIONS[:1]
    points = ",".join(["after-compute:sleep=0.3:1000", *(f"{name}:kill" for name in places)])
    trial.keep_workers(1, KVJOBS_LANES="1", KVJOBS_FAILPOINTS=points)
    for stage in WITH_MODEL * 6 if trial.long else WITH_MODEL[1:]:
        trial.until(lambda stage=stage: _is_leased(trial, stage), f"a shard of stage {stage} is leased")  # type: ignore[misc]
        child = trial.restart_ended()[0].working_child()
        if child is not None:
            trial.kill(child)
    trial.until(lambda: trial.query(select(Job.id).where(Job.state != "done")) == [], "all stages have ended")
    trial.expect(all(trial.hits()[name] == 1 for name in places), f"failpoints: {trial.hits()}")
    _check(trial, baseline)


def _check(trial: Trial, baseline: bytes) -> None:
    trial.expect(_exported(trial) == baseline, "the export differs from that of an undisturbed run")
    checked = trial.kvjobs("db", "check")
    trial.expect(checked.returncode == 0, f"kvjobs db check: {checked.stdout}{checked.stderr}")
    for job in JOBS:
        with trial.database.reading() as connection:
            trial.violations += find_contradictions(connection, job)
        positions = [row.position for row in trial.query(select(Document.position).where(Document.job_id == job)) or []]
        trial.expect(sorted(positions) == list(range(trial.corpus.documents)), f"documents of stage {job}: {positions}")
    trial.expect(not trial.logged(r"Traceback"), f"a process printed a traceback:\n{trial.log_tail()}")


def _is_leased(trial: Trial, job: int) -> bool:
    leased = select(Shard.id).where(Shard.job_id == job, Shard.state == ShardState.LEASED)
    is_over = select(Job.id).where(Job.id == job, Job.state == "done")
    return bool(trial.query(leased) or trial.query(is_over))


def _exported(trial: Trial, **variables: str) -> bytes:
    done = trial.kvjobs("export", "1", "--chain", "--only", "all", "-o", "chain.jsonl", **variables)
    trial.expect(done.returncode == 0, f"export ended with {done.returncode}: {done.stderr}")
    return (trial.folder / "chain.jsonl").read_bytes()


def _undisturbed(trial: Trial) -> bytes:
    """The export of the same chain in a home of its own, on SQLite."""
    alone = {"KVJOBS_HOME": str(trial.folder / "alone"), "KVJOBS_DATABASE": "", "KVJOBS_BROKER": ""}
    done = trial.kvjobs("submit", str(trial.corpus.path), *STAGES, "--wait", "-o", "alone.jsonl", **alone)
    trial.expect(done.returncode == 0, f"the undisturbed run ended with {done.returncode}: {done.stderr}")
    kept = len((trial.folder / "alone.jsonl").read_bytes().splitlines())
    trial.expect(0 < kept < trial.corpus.documents, f"the filter keeps {kept} of {trial.corpus.documents}")
    return _exported(trial, **alone)
