"""Commands and signals to a running job and its workers: none counts as a crash, no accepted result is lost."""

import json
import signal
import time

from sqlalchemy import func, select

from jobs.store.schema.tables import Shard
from tests.faults.trial import Trial


def cancelled_under_load(trial: Trial) -> None:
    """`kvjobs cancel` while batches are processed: accepted results stay, the rest is cancelled."""
    trial.environment |= {"KVJOBS_HEARTBEAT_S": "0.3"}
    trial.submit()
    trial.keep_workers(2)
    trial.until_num_ended(trial.corpus.documents // 6)
    kept = trial.num_ended()
    trial.expect(trial.kvjobs("cancel", str(trial.job_id)).returncode == 0, "cancel was refused")
    trial.fault_ended()
    _check_cancelled(trial, kept)


def cancel_killed(trial: Trial) -> None:
    """`kvjobs cancel` is killed when it has recorded the request and done nothing else: the workers finish it. So is
    `kvjobs retry`, when it has opened the documents."""
    trial.environment |= {"KVJOBS_HEARTBEAT_S": "0.3"}
    trial.submit()
    trial.keep_workers(1, KVJOBS_LANES="1")
    trial.until_num_ended(trial.corpus.documents // 12)
    kept = trial.num_ended()
    cancelled = trial.kvjobs("cancel", str(trial.job_id), KVJOBS_FAILPOINTS="in-cancel:kill")
    trial.expect(cancelled.returncode == -signal.SIGKILL, f"cancel ended with {cancelled.returncode}")
    trial.fault_ended()
    _check_cancelled(trial, kept)
    retried = trial.kvjobs("retry", str(trial.job_id), KVJOBS_FAILPOINTS="in-retry:kill")
    trial.expect(retried.returncode == -signal.SIGKILL, f"retry ended with {retried.returncode}")
    trial.until_over()
    trial.check(deaths=0)


def _check_cancelled(trial: Trial, kept: int) -> None:
    trial.until_over()
    trial.expect(trial.state() == "cancelled", f"the job is {trial.state()}")
    _without_crashes(trial)
    exported = trial.kvjobs("export", str(trial.job_id)).stdout
    trial.check(baseline=exported.encode(), deaths=0)
    expected = {json.loads(line)["id"]: json.loads(line) for line in trial.corpus.baseline().splitlines()}
    records = [json.loads(line) for line in exported.splitlines()]
    accepted = [record for record in records if record["status"] == "ok"]
    trial.expect(all(record == expected[record["id"]] for record in accepted), "a result differs after a cancel")
    trial.expect(len(records) == len(expected), f"{len(records)} documents in the export, not {len(expected)}")
    trial.expect({record["status"] for record in records} == {"ok", "cancelled"}, "documents ended in other states")
    trial.expect(len(accepted) >= kept, f"{kept} were accepted before the cancel, {len(accepted)} after it")
    trial.notes.append(f"{len(accepted)} of {len(records)} kept")


def paused_and_resumed(trial: Trial) -> None:
    """`kvjobs pause` and `resume` again and again while workers process the job."""
    trial.environment |= {"KVJOBS_HEARTBEAT_S": "0.3"}
    trial.submit()
    trial.keep_workers(2)
    for times in range(10 if trial.long else 3):
        trial.until_num_ended(min(10 + 40 * times, trial.corpus.documents))
        if trial.state() != "running":
            break
        paused = trial.kvjobs("pause", str(trial.job_id))
        if paused.returncode:
            trial.expect("unfinished job" in paused.stderr, f"pause was refused: {paused.stderr}")
            break
        trial.until(lambda: not _leased(trial), "every shard was given back", timeout=30)
        before = trial.num_ended()
        time.sleep(1.0)
        trial.expect(trial.num_ended() == before, "documents were done while the job was paused")
        if trial.state() != "paused":
            break  # the batches that were processed at the pause were the last
        resumed = trial.kvjobs("resume", str(trial.job_id))
        trial.expect(resumed.returncode == 0, f"resume was refused: {resumed.stderr}")
        trial.fault_ended()
    trial.until_over()
    _without_crashes(trial)
    trial.check(deaths=0)


def restarted_one_by_one(trial: Trial) -> None:
    """SIGTERM to each worker in turn, another started in its place: a deployment under load."""
    trial.submit()
    trial.keep_workers(2, KVJOBS_LANES="1")
    slowest, restarts = 0.0, 0
    for _ in range(12 if trial.long else 4):
        worker = trial.restart_ended()[restarts % 2]
        trial.until(lambda worker=worker: worker.child(), "the worker has begun")
        time.sleep(trial.rng.uniform(0.1, 2.5))
        if trial.state() != "running":
            break
        asked = time.monotonic()
        code = worker.terminate()
        slowest = max(slowest, time.monotonic() - asked)
        trial.expect(code == 0, f"a worker that was asked to stop ended with {code}")
        restarts += 1
        trial.fault_ended()
    trial.until_over()
    trial.expect(slowest <= 30, f"a worker took {slowest:.1f} s to stop")
    trial.notes.append(f"{restarts} restarts, slowest stop {slowest:.1f} s")
    _without_crashes(trial)
    trial.check(deaths=0)


def _leased(trial: Trial) -> int:
    rows = trial.query(select(func.count()).select_from(Shard).where(Shard.state == "leased"))
    return int(rows[0][0]) if rows else 1


def _without_crashes(trial: Trial) -> None:
    trial.expect(
        not (taken := trial.events("lost", "expired", "stale_commit")), f"a crash or a lost lease was counted: {taken}"
    )
    rows = trial.query(select(func.coalesce(func.sum(Shard.crashes), 0)))
    trial.expect(rows is not None and rows[0][0] == 0, "crashes were counted")
