"""When a process counts as dead, in and across namespaces."""

import json
import os
import subprocess
import sys

import pytest

from jobs.system import process as process_module
from jobs.system.process import ProcessId
from tests.places import CHECKOUT


def test_a_reused_pid_does_not_keep_a_dead_process_alive() -> None:
    me = ProcessId.current()

    assert not me.is_dead()
    assert ProcessId(me.machine, me.pid, me.started - 1).is_dead()
    assert ended_process().is_dead()


def test_a_zombie_is_dead() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE)
    started = ProcessId(ProcessId.current().machine, process.pid, 1.0)
    assert process.stdout is not None
    process.stdout.read()  # it has ended, but its parent has not waited for it yet

    assert started.is_dead()
    process.wait()
    process.stdout.close()


def test_a_hidden_process_counts_as_alive_as_long_as_its_pid_is_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """In place of the mount option hidepid, with which /proc does not show other users' processes."""
    me, ended = ProcessId.current(), ended_process()

    def refuse_or_deny(pid: int, _signal: int) -> None:
        raise ProcessLookupError if pid == ended.pid else PermissionError

    monkeypatch.setattr(process_module, "_stat", lambda pid: None)
    monkeypatch.setattr(process_module.os, "kill", refuse_or_deny)

    assert not me.is_dead()
    assert ended.is_dead()


ASK = """
import json, sys
from jobs.system.process import ProcessId, this_machine
print(json.dumps([this_machine(), *(ProcessId(machine, pid, started).is_dead() for machine, pid, started in {asked})]))
"""


def seen_from(*namespaces: str, user: int = 0) -> tuple[str, bool, bool]:
    """What a process of this user in these namespaces reports: (name of its machine, whether this process is dead,
    whether an ended process is dead)."""
    asked = [(process.machine, process.pid, process.started) for process in (ProcessId.current(), ended_process())]
    done = subprocess.run(
        ["unshare", *namespaces, python_of(user), "-c", ASK.format(asked=asked)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(CHECKOUT)},
    )
    if done.returncode and ("unshare:" in done.stderr or "mount:" in done.stderr):
        pytest.skip(f"no namespace can be made here ({done.stderr.strip()})")
    assert done.returncode == 0, done.stderr
    machine, me, ended = json.loads(done.stdout)
    return machine, me, ended


def python_of(user: int) -> str:
    """A Python that this user can run: nobody else can read one that is installed in a home."""
    if user == 0:
        return sys.executable
    for python in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        asked = ["setpriv", f"--reuid={user}", "--clear-groups", python, "-c", "import json"]
        if subprocess.run(asked, capture_output=True, check=False).returncode == 0:
            return python
    pytest.skip("another user can run no Python here")


def with_proc(option: str, user: int) -> tuple[str, ...]:
    mounted = f'mount -t proc -o {option} proc /proc && exec setpriv --reuid={user} --clear-groups "$@"'
    return ("--mount", "sh", "-c", mounted, "sh")


def test_a_process_of_another_user_hidden_by_proc_does_not_count_as_dead() -> None:
    machine, me, ended = seen_from(*with_proc("hidepid=2", user=65534), user=65534)

    assert machine == ProcessId.current().machine
    assert (me, ended) == (False, True)


def test_without_the_boot_id_in_proc_no_process_counts_as_dead() -> None:
    """This is so under systemd's ProcSubset=pid. Two machines without an id do not count as the same machine either."""
    machine, me, ended = seen_from(*with_proc("subset=pid", user=0))

    assert (machine, me, ended) == ("", False, False)
    assert not ProcessId("", ended_process().pid, 1.0).is_dead()


def test_times_since_boot_are_not_compared_across_time_namespaces() -> None:
    machine, me, ended = seen_from("--time", "--boottime", "86400", "--fork")

    assert machine != ProcessId.current().machine
    assert (me, ended) == (False, False)


def ended_process() -> ProcessId:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return ProcessId(ProcessId.current().machine, process.pid, 1.0)
