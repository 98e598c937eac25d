"""Faults of the database: it stops and returns, its answers are lost, it is locked, its disk is full."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.faults.proxy import Proxy
from tests.faults.servers import PgBouncer, missing
from tests.faults.trial import Trial

HOLD_THE_LOCK = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=60)
connection.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.read()
connection.execute("ROLLBACK")
"""
DISK_MIB = 24
LANES = 40
GAP_S = 60.0


def locked(trial: Trial) -> None:
    """Another program holds SQLite's write lock beyond the busy timeout: workers say so, and continue after it."""
    if not trial.long:
        trial.environment["KVJOBS_BUSY_TIMEOUT_S"] = "1"
    trial.submit()
    trial.keep_workers(2, KVJOBS_LANES="1")
    trial.until_num_ended(10)
    with _locked(trial):
        before = trial.num_ended()
        time.sleep(60.0 if trial.long else 6.0)
        trial.expect(trial.num_ended() == before, "something was recorded past another program's lock")
    trial.fault_ended()
    trial.deaths += 2  # neither worker could extend its leases
    trial.until_over()
    if trial.state() == "done" and trial.num_ended() > before:
        trial.expect(trial.logged(r"is locked by process \d+"), "no message said that the database is locked")
    trial.check()


def locked_under_many_lanes(trial: Trial) -> None:
    """Forty lanes of one process want to write while another program holds the lock for less than a lease: they
    wait."""
    trial.environment |= {"KVJOBS_LEASE_S": "60", "KVJOBS_HEARTBEAT_S": "15", "KVJOBS_BUSY_TIMEOUT_S": "30"}
    trial.fill_memory()
    trial.submit()
    for _ in range(LANES // 4):  # at least one shard for each lane
        trial.submit("--again")
    trial.worker(KVJOBS_LANES=str(LANES))
    trial.until(lambda: trial.events("leased"), "the lanes have begun")
    with _locked(trial):
        time.sleep(40.0)
    trial.fault_ended()
    for number in range(1, LANES // 4 + 2):
        trial.job_id = number
        trial.until_over()
        trial.expect(not trial.events("expired", "lost", "stale_commit"), "a crash or a lost lease was counted")
        trial.check(deaths=0)


def disk_full(trial: Trial) -> None:
    """The disk of the home folder fills up and is freed again: workers say so, and continue after it."""
    with _small_disk(trial.home):
        trial.submit()
        trial.keep_workers(2, KVJOBS_LANES="1")
        for _ in range(4 if trial.long else 2):
            trial.until_num_ended(min(trial.num_ended() + 15, trial.corpus.documents))
            ballast = trial.home / "ballast"
            _fill(ballast)
            before = trial.log.stat().st_size
            with contextlib.suppress(AssertionError):
                trial.until(lambda b=before: "disk" in trial.log.read_text()[b:], "a message says that it is full", 20)
            _fill(ballast)
            time.sleep(1.0)
            ballast.unlink()
            trial.fault_ended()
        trial.deaths += 4  # no worker could extend its leases
        trial.until_over()
        said = trial.logged(r"the disk of the database .* is full|disk .* reports an error")
        trial.expect(said, "no message said that the disk is full")
        trial.check()
        trial.end()  # before its disk is unmounted


def restarted(trial: Trial) -> None:
    """PostgreSQL's fast and immediate shutdowns, and a kill -9 of all of it, each with a start afterwards."""
    assert trial.postgres
    trial.submit()
    trial.keep_workers(2, KVJOBS_LANES="1")
    ways = (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL) * (3 if trial.long else 1)
    for number in ways:
        trial.until_num_ended(min(trial.num_ended() + 20, trial.corpus.documents))
        if trial.state() == "done":
            break
        if number == signal.SIGKILL:
            trial.postgres.kill()
        else:
            trial.postgres.stop(number)
        time.sleep(trial.rng.uniform(0.0, 10.0 if trial.long else 2.0))
        trial.postgres.start()
        trial.deaths += 2
        trial.fault_ended()
    trial.until_over()
    trial.check()
    trial.expect(trial.longest_gap_s <= GAP_S, f"nothing was recorded for {trial.longest_gap_s:.0f} s")


def away_past_the_lease(trial: Trial) -> None:
    """PostgreSQL is stopped for three leases: a worker with a computed batch still holds its shard, or is refused."""
    assert trial.postgres
    trial.environment |= {"KVJOBS_LEASE_S": "4", "KVJOBS_HEARTBEAT_S": "1"}
    trial.submit()
    trial.keep_workers(2, KVJOBS_LANES="1")
    for _ in range(2 if trial.long else 1):
        trial.until_num_ended(min(trial.num_ended() + 20, trial.corpus.documents))
        trial.postgres.stop(signal.SIGINT)
        time.sleep(12.0)
        trial.postgres.start()
        trial.deaths += 2
        trial.fault_ended()
    trial.until_over()
    trial.check()


def backends_terminated(trial: Trial) -> None:
    """pg_terminate_backend on every connection, again and again."""
    assert trial.postgres
    trial.submit()
    trial.keep_workers(2, KVJOBS_LANES="1")
    trial.until_num_ended(10)
    for _ in range(60 if trial.long else 12):
        trial.postgres.terminate_backends()
        trial.restart_ended()
        time.sleep(trial.rng.uniform(0.05, 0.6))
    trial.fault_ended()
    trial.deaths += 2
    trial.until_over()
    trial.check()
    trial.expect(trial.longest_gap_s <= GAP_S, f"nothing was recorded for {trial.longest_gap_s:.0f} s")


def reply_cut_after_commit(trial: Trial) -> None:
    """The connection is cut after COMMIT was sent and before the answer: it took effect, and must not be repeated."""
    assert trial.postgres
    with Proxy(trial.postgres.port) as proxy:
        trial.submit()
        trial.environment["KVJOBS_DATABASE"] = trial.postgres.url_at(proxy.port)
        wanted = 40 if trial.long else 12
        trial.keep_workers(2, KVJOBS_LANES="1")
        trial.until_num_ended(5)
        proxy.cut_after(b"COMMIT", times=wanted)
        trial.until(lambda: proxy.cuts == wanted or trial.state() == "done", "answers are cut")
        proxy.heal()
        trial.fault_ended()
        trial.deaths += 2
        trial.until_over()
        trial.expect(proxy.cuts >= wanted // 2, f"only {proxy.cuts} answers were cut")
        trial.notes.append(f"{proxy.cuts} answers to COMMIT cut, {len(trial.events('stale_commit'))} stale commits")
        trial.check()
        trial.end()


def pooler_killed(trial: Trial) -> None:
    """kill -9 of a PgBouncer in transaction mode, through which workers and commands reach PostgreSQL: what it carried
    is committed or not, and nobody is told which."""
    assert trial.postgres
    with PgBouncer(trial.postgres.url, sessions=4) as pooler:
        trial.environment["KVJOBS_DATABASE"] = pooler.url
        trial.submit()
        trial.keep_workers(2, KVJOBS_LANES="1")
        for _ in range(12 if trial.long else 3):
            trial.until_num_ended(min(trial.num_ended() + 20, trial.corpus.documents))
            if trial.state() == "done":
                break
            time.sleep(trial.rng.uniform(0.0, 0.5))
            pooler.kill()
            time.sleep(trial.rng.uniform(0.0, 2.0))
            pooler.start()
            trial.fault_ended()
        trial.until_over()
        trial.expect(trial.faults >= 2, "the job was over before the pooler was killed twice; give it more documents")
        trial.check(deaths=0)
        trial.expect(trial.longest_gap_s <= GAP_S, f"nothing was recorded for {trial.longest_gap_s:.0f} s")
        trial.end()


@contextlib.contextmanager
def _locked(trial: Trial) -> Iterator[None]:
    """Another program holds SQLite's write lock."""
    other = subprocess.Popen(
        [sys.executable, "-c", HOLD_THE_LOCK, str(trial.home / "kvjobs.db")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert other.stdout is not None
        other.stdout.readline()
        yield
    finally:
        other.communicate()


@contextlib.contextmanager
def _small_disk(folder: Path) -> Iterator[None]:
    if os.geteuid() != 0:
        missing("only root can mount a small disk")
    size = f"size={DISK_MIB}m"
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", size, "kvjobs-fault", str(folder)], capture_output=True)
    if mounted.returncode:
        missing(f"no small disk can be mounted here: {mounted.stderr.decode().strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def _fill(path: Path) -> None:
    """Write until the disk is full."""
    with path.open("ab", buffering=0) as file, contextlib.suppress(OSError):
        for size in (1 << 16, 1 << 12, 1):
            with contextlib.suppress(OSError):
                while file.write(b"\0" * size):
                    pass
