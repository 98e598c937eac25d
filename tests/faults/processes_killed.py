"""Faults of worker processes: killed, suspended, with a wrong clock, and several that reap at once."""

import contextlib
import os
import signal
import threading
import time
from collections import Counter
from pathlib import Path

from sqlalchemy import func, select

from jobs.dispatch.reaper import reap
from jobs.errors import KvjobsError
from jobs.store.schema.tables import Worker
from jobs.system.failpoints import NAMES
from tests.faults.corpus import undisturbed_with
from tests.faults.trial import Trial

CLOCK = Path(__file__).with_name("clock")  # a sitecustomize that moves Python's clock
# Each has a test of its own: docs/faults.md, "Programs that submit".
OF_PROGRAMS = ("before-append-commit", "after-append", "after-webhook", "after-batch-submit", "before-batch-end")
OF_CHAINS = ("in-hand-on",)
OF_FOLDING = ("before-fold", "in-fold", "after-fold")  # by the parent process: tests/faults/folding.py
# The bundled model twice: what it makes of Chinese means nothing, and is the same each time.
TWO_MODELS = ("--model", "demo-en-zh", "--via", "zh", "--via-model", "demo-en-zh", "--max-new-tokens", "40")
OF_COMMANDS = (
    *("in-cancel", "in-retry", "after-ingest-batch", "before-ingest-finish", "in-prune", "in-give-back"),
    *("in-written-file", "after-written-file"),
)


def killed_at_random(trial: Trial) -> None:
    """kill -9 of a child, of a parent, of both at once."""
    trial.submit()
    _kill_at_random(trial)
    trial.check()


def killed_between_two_models(trial: Trial) -> None:
    """The same in a job that translates with two models."""
    trial.submit(*TWO_MODELS)
    _kill_at_random(trial)
    trial.check(baseline=undisturbed_with(trial.corpus.documents, *TWO_MODELS))


def _kill_at_random(trial: Trial) -> None:
    """Kill until the job is over."""
    trial.keep_workers(2, KVJOBS_LANES="1")
    wanted = 15 if trial.long else 4
    done: Counter[str] = Counter()
    while sum(done.values()) < wanted and trial.state() == "running":
        _until_a_child_works(trial)
        time.sleep(trial.rng.uniform(0.05, 1.5))
        worker = trial.rng.choice(trial.restart_ended())
        victim = ("child", "parent", "both")[sum(done.values()) % 3]
        child = worker.working_child()
        if child is None and victim != "parent":
            continue  # it has ended and is being replaced
        if victim in ("parent", "both"):
            trial.kill(worker.pid)
        if victim in ("child", "both") and child:
            trial.kill(child)
        done[victim] += 1
    trial.until_over()
    trial.notes.append("killed: " + ", ".join(f"{number} {victim}" for victim, number in done.items()))
    trial.expect(sum(done.values()) >= 2, "the job was over before two processes were killed; give it more documents")


def failpoints(trial: Trial) -> None:
    """A process dies at each failpoint of the code, once (twice in the long form); each time in a job of its own, so
    that the next death does not repair the state that one leaves behind."""
    times = 2 if trial.long else 1
    trial.fill_memory()
    for number, name in enumerate(
        (name for name in NAMES if name not in OF_COMMANDS + OF_CHAINS + OF_FOLDING + OF_PROGRAMS), start=1
    ):
        trial.submit(*(["--again"] if number > 1 else []))
        trial.job_id = number
        worker = trial.worker(KVJOBS_LANES="1", KVJOBS_FAILPOINTS=f"{name}:kill:{times}")
        trial.until_over()
        worker.terminate()
        hits = trial.hits()[name]
        trial.expect(hits == times, f"{hits} processes came to the failpoint {name}, not {times}")
        trial.check(deaths=hits)


def frozen_past_its_lease(trial: Trial) -> None:
    """SIGSTOP of a whole worker with a batch computed, another worker finishes the job, SIGCONT: its commit comes too
    late. (Its parent, if it ran, would end the child.)"""
    # Not in the middle of a heartbeat: on SQLite no other process could write then.
    trial.environment |= {"KVJOBS_LEASE_S": "8", "KVJOBS_HEARTBEAT_S": "4", "KVJOBS_LANES": "1"}
    trial.submit()
    frozen = trial.worker(KVJOBS_FAILPOINTS="after-compute:stop")
    trial.until(lambda: trial.hits()["after-compute"], "a child stops itself after a batch is computed", timeout=30)
    child = frozen.child()
    assert child is not None
    frozen.send(signal.SIGSTOP)
    trial.deaths += 1
    trial.keep_workers(1)
    trial.until(lambda: trial.events("expired"), "its lease is taken back")
    trial.fault_ended()
    trial.until_over()
    os.kill(child, signal.SIGCONT)
    frozen.send(signal.SIGCONT)
    trial.until(lambda: trial.events("stale_commit"), "the late commit is refused and logged", timeout=30)
    trial.check()


def frozen_with_the_lock(trial: Trial) -> None:
    """SIGSTOP between the INSERTs and COMMIT, which leaves SQLite's write lock with the process: of a child, whose
    parent ends it; of child and parent, where another worker does."""
    trial.environment |= {"KVJOBS_LEASE_S": "2", "KVJOBS_HEARTBEAT_S": "0.5", "KVJOBS_BUSY_TIMEOUT_S": "1"}
    trial.environment["KVJOBS_LANES"] = "1"
    trial.keep_workers(1)
    for number, victim in enumerate(("child", "child and parent"), start=1):
        trial.job_id = number
        frozen = trial.worker(KVJOBS_FAILPOINTS=f"before-commit:stop:{number}")
        trial.submit(*(["--again", "--no-reuse"] if number > 1 else ["--no-reuse"]))
        trial.until(lambda: trial.hits()["before-commit"] >= number, "a child stops itself", timeout=60)  # noqa: B023 - called at once
        trial.deaths += 2  # the other worker cannot extend its leases
        if victim == "child and parent":
            frozen.send(signal.SIGSTOP)
        trial.fault_ended()
        trial.until_over()
        frozen.send(signal.SIGCONT)
        frozen.terminate()
        trial.check()


def frozen_at_random(trial: Trial) -> None:
    """SIGSTOP of a child at any moment, for longer than its lease, and SIGCONT while others go on."""
    trial.environment |= {"KVJOBS_LEASE_S": "2", "KVJOBS_HEARTBEAT_S": "0.5", "KVJOBS_LANES": "1"}
    trial.submit()
    trial.keep_workers(2)
    for _ in range(8 if trial.long else 2):
        _until_a_child_works(trial)
        time.sleep(trial.rng.uniform(0.0, 1.5))
        child = trial.rng.choice(trial.restart_ended()).working_child()
        if child is None:
            continue
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGSTOP)
            trial.deaths += 1
            # On SQLite a process stopped within a transaction blocks every writer, so no lease can be taken back.
            time.sleep(trial.rng.uniform(3.0, 5.0))
            os.kill(child, signal.SIGCONT)
            trial.fault_ended()
    trial.until_over()
    trial.notes.append(f"{len(trial.events('expired'))} expired, {len(trial.events('stale_commit'))} stale commits")
    trial.check(deaths=2 * trial.deaths)  # workers that waited for the stopped one's lock may have lost a lease too


def clock_is_wrong(trial: Trial) -> None:
    """One worker's clock is an hour ahead, another's an hour behind: no lease is lost.

    Python's clock, that is. The database's own clock stays right: of PostgreSQL it is another machine's, and SQLite
    has the kernel's. (libfaketime would move both, but Python 3.11 does not wait correctly under it.)
    """
    for hours in (1, -1):
        trial.keep_workers(1, KVJOBS_LANES="1", PYTHONPATH=trial.python_path(CLOCK), CLOCK_MOVED_S=str(hours * 3600))
    trial.keep_workers(1, KVJOBS_LANES="1")
    registered = select(func.count()).select_from(Worker)
    trial.until(lambda: (trial.query(registered) or [(0,)])[0][0] == 3, "all three are registered")
    trial.submit()
    trial.until_over()
    leased = len({event.worker_id for event in trial.events("leased")})
    trial.expect(leased == 3, f"only {leased} of three workers leased a shard; give it more documents")
    trial.expect(not trial.events("expired", "lost", "stale_commit"), "a lease was taken away from a live worker")
    trial.check(deaths=0)


def many_reapers(trial: Trial) -> None:
    """Several workers and threads take back the leases of killed children at the same time: each lease once."""
    trial.submit()
    trial.keep_workers(3, KVJOBS_LANES="1")
    over = threading.Event()

    def reap_all_the_time() -> None:
        while not over.is_set():
            with contextlib.suppress(KvjobsError):
                reap(trial.database)

    threads = [threading.Thread(target=reap_all_the_time, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(8 if trial.long else 3):
            _until_a_child_works(trial)
            time.sleep(trial.rng.uniform(0.3, 1.2))
            for child in [worker.working_child() for worker in trial.restart_ended()]:
                if child:
                    trial.kill(child)
        trial.until_over()
    finally:
        over.set()
        for thread in threads:
            thread.join()
    taken = Counter((event.shard_id, event.epoch) for event in trial.events("lost", "expired"))
    trial.expect(max(taken.values(), default=1) == 1, "a lease was taken back twice")
    trial.check()


def _until_a_child_works(trial: Trial) -> None:
    trial.until(lambda: any(worker.working_child() for worker in trial.restart_ended()), "a child has loaded its model")
