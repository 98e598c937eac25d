"""Processes that are stopped (SIGSTOP, Ctrl-Z) while they hold the write lock of a SQLite file."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from jobs.errors import TransientError
from jobs.store.connection.lock_holder import lock_holder
from jobs.store.database import Database
from jobs.system.process import is_stopped
from tests.command_line import Kvjobs
from tests.machine import until
from tests.places import CHECKOUT
from worker.process.frozen_writer import FrozenWriter

WRITER = """
import os, signal, subprocess, sys, time
from jobs.store.database import Database

CHILD = '''
import sys, time
from jobs.store.database import Database
from jobs.store.worker_registry import register
register(Database.open(sys.argv[1]), device="cpu", provider="-", lanes=1)
print("registered", flush=True)
sys.stdin.read()
'''
if sys.argv[2] == "worker":
    child = subprocess.Popen([sys.executable, "-c", CHILD, sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    child.stdout.readline()
with Database.open(sys.argv[1]).writing() as connection:
    os.kill(os.getpid(), signal.SIGSTOP)
"""


@contextmanager
def stopped_writer(url: str, kind: str) -> Iterator["subprocess.Popen[bytes]"]:
    """A process that is stopped in a transaction: the parent of a registered worker, or a stranger."""
    process = subprocess.Popen([sys.executable, "-c", WRITER, url, kind], cwd=CHECKOUT)
    try:
        until(lambda: process.poll() is not None or is_stopped(process.pid))
        yield process
    finally:
        process.kill()
        process.wait()


def test_the_parent_of_a_worker_that_is_stopped_with_the_lock_is_ended_after_two_leases(tmp_path: Path) -> None:
    database = Database.open(f"sqlite:///{tmp_path / 'kvjobs.db'}", busy_timeout_s=0.1)
    frozen_writer = FrozenWriter(database, lease_s=0.2)
    with stopped_writer(f"sqlite:///{tmp_path / 'kvjobs.db'}", "worker") as process:
        for _ in range(3):
            frozen_writer.look()
        assert is_stopped(process.pid)  # it may be let go on within two leases

        until(lambda: frozen_writer.look() or process.poll() is not None)

        assert process.returncode == -signal.SIGKILL
    with database.writing():
        pass
    database.close()


def test_a_stopped_stranger_that_holds_the_lock_is_named_and_left_alone(kvjobs: Kvjobs, home: Path) -> None:
    url = f"sqlite:///{home / 'kvjobs.db'}"
    database = Database.open(url, busy_timeout_s=0.1)
    frozen_writer = FrozenWriter(database, lease_s=0.01)
    with stopped_writer(url, "stranger") as process:
        assert lock_holder(home / "kvjobs.db") == process.pid
        for _ in range(10):
            frozen_writer.look()
            time.sleep(0.02)
        assert process.poll() is None

        with pytest.raises(TransientError, match=f"kill -CONT {process.pid}"), database.writing():
            pass
        checks = {check["name"]: check for check in kvjobs("doctor", "--json").json["checks"]}
        assert str(process.pid) in checks["database lock"]["found"]

        process.send_signal(signal.SIGCONT)
        assert process.wait(20) == 0
    assert lock_holder(home / "kvjobs.db") is None
    assert "database lock" not in [check["name"] for check in kvjobs("doctor", "--json").json["checks"]]
    database.close()


SUSPENDED = """
import os, sys, time
from jobs.store.database import Database
from jobs.system.suspension import suspend_between_transactions

suspend_between_transactions()
database = Database.open(sys.argv[1])
with database.writing() as connection:
    print("writing", flush=True)
    sys.stdin.readline()
print("written", flush=True)
"""


def test_ctrl_z_stops_a_command_after_its_transaction_and_not_in_it(tmp_path: Path) -> None:
    database = Database.open(f"sqlite:///{tmp_path / 'kvjobs.db'}", busy_timeout_s=5)
    command = [sys.executable, "-c", SUSPENDED, f"sqlite:///{tmp_path / 'kvjobs.db'}"]
    # A process group as a shell makes one for a job. (The kernel stops no orphaned group.)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "process_group": 0}
    with subprocess.Popen(command, cwd=CHECKOUT, text=True, **pipes) as process:  # type: ignore[call-overload]
        try:
            assert process.stdout.readline() == "writing\n"
            os.killpg(process.pid, signal.SIGTSTP)
            time.sleep(0.2)
            assert not is_stopped(process.pid)

            print(file=process.stdin, flush=True)
            until(lambda: is_stopped(process.pid))
            with database.writing():  # the lock is free
                pass

            os.killpg(process.pid, signal.SIGCONT)
            assert process.stdout.readline() == "written\n"
            assert process.wait(10) == 0
        finally:
            process.kill()
    database.close()
