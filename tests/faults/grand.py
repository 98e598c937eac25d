"""All faults in one run, until the job has ended."""

import signal
import time
from collections import Counter

from tests.faults.trial import Trial


def everything_at_once(trial: Trial) -> None:
    """Every few seconds Redis is killed, PostgreSQL restarted, a child or a parent killed, or every connection cut."""
    assert trial.postgres
    trial.submit()
    trial.keep_workers(2, KVJOBS_LANES="1")
    faults = ["child", "parent", "restart", "crash", "terminate", *(["redis", "flush"] if trial.redis else [])]
    done: Counter[str] = Counter()
    trial.until_num_ended(10)
    trial.rng.shuffle(faults)
    limit_s = 3600.0 if trial.long else 150.0
    started = time.monotonic()
    while trial.state() != "done" and time.monotonic() - started < limit_s:
        fault = faults[sum(done.values()) % len(faults)]
        _do(trial, fault)
        done[fault] += 1
        trial.fault_ended()
        pause_until = time.monotonic() + trial.rng.uniform(2.0, 6.0)
        trial.until(lambda end=pause_until: time.monotonic() > end, "a moment passes")
    trial.until_over()
    trial.notes.append(", ".join(f"{number} {fault}" for fault, number in done.items()))
    # A worker that could not reach the database for the length of a lease may have lost it.
    trial.check(deaths=trial.deaths + 2 * sum(done[fault] for fault in ("restart", "crash", "terminate")))


def _do(trial: Trial, fault: str) -> None:
    assert trial.postgres
    worker = trial.rng.choice(trial.restart_ended())
    if fault == "child" and (child := worker.child()):
        trial.kill(child)
    elif fault == "parent":
        trial.kill(worker.pid)
    elif fault == "restart":
        trial.postgres.restart(signal.SIGINT)
    elif fault == "crash":
        trial.postgres.kill()
        trial.postgres.start()
    elif fault == "terminate":
        trial.postgres.terminate_backends()
    elif fault == "redis" and trial.redis:
        trial.redis.kill()
        time.sleep(trial.rng.uniform(0.0, 5.0))
        trial.redis.start()
    elif fault == "flush" and trial.redis:
        trial.redis.flush()
