"""The watchdog of a process that hangs or was suspended."""

import os
import signal
import subprocess
import sys
import time

from tests.places import CHECKOUT
from worker.process.watchdog import EXIT_HUNG

PROGRAM = """
import ctypes, sys, threading, time
from worker.process.watchdog import WatchedCalls, Watchdog

watchdog = Watchdog(hang_s=0.5, lease_s=float(sys.argv[2]))

def beat():
    while True:
        watchdog.heard_heartbeat()
        time.sleep(0.05)

threading.Thread(target=beat, daemon=True).start()
threading.Thread(target=watchdog.run, daemon=True).start()
with (call := WatchedCalls(watchdog)).watching("documents 3 to 9"):
    print("ready", flush=True)
    if sys.argv[1] == "sleep":
        time.sleep(60)
    elif sys.argv[1] == "spin":
        ctypes.PyDLL(None).sleep(60)  # and keeps the interpreter's lock
    else:
        for _ in range(20):
            time.sleep(0.05)
            call.step()
print("done")
"""


def start(kind: str, lease_s: float) -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, kind, str(lease_s)],
        cwd=CHECKOUT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def test_a_hanging_process_prints_where_it_hangs_and_ends() -> None:
    process = start("sleep", 60)

    _, errors = process.communicate(timeout=20)

    assert process.returncode == EXIT_HUNG
    assert "3 to 9" in errors
    assert "most recent call first" in errors


def test_a_process_that_holds_the_interpreters_lock_ends_too() -> None:
    process = start("spin", 0.2)

    _, errors = process.communicate(timeout=20)

    assert process.returncode == 1
    assert "Timeout" in errors


def test_a_process_suspended_past_its_lease_continues() -> None:
    process = start("steps", 0.5)
    os.kill(process.pid, signal.SIGSTOP)
    time.sleep(1)  # twice the lease, and longer than the watchdog's limit
    os.kill(process.pid, signal.SIGCONT)

    output, errors = process.communicate(timeout=20)

    assert (process.returncode, output) == (0, "done\n"), errors
