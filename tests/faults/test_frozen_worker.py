"""A worker that is stopped (SIGSTOP) while it holds the write lock of the SQLite file."""

from pathlib import Path

from jobs.system.process import is_stopped
from tests.end_to_end.conftest import Bulletins
from tests.machine import Machine, child_of, until

SHORT = {"KVJOBS_LEASE_S": "1", "KVJOBS_HEARTBEAT_S": "0.25", "KVJOBS_LANES": "1", "KVJOBS_BUSY_TIMEOUT_S": "1"}
DONE_S = 50


def test_a_worker_stopped_before_its_commit_holds_up_nobody_for_long(
    machine: Machine, bulletins: Bulletins, tmp_path: Path
) -> None:
    stop = {"KVJOBS_FAILPOINTS": "before-commit:stop", "KVJOBS_FAILPOINTS_LOG": str(tmp_path / "hits")}
    assert machine.kvjobs("submit", str(bulletins(3))).returncode == 0
    worker = machine.worker(**SHORT, **stop)
    until(lambda: (child := child_of(worker.pid)) and is_stopped(child))

    until(machine.is_done, DONE_S)

    assert machine.kvjobs("db", "check", "1").returncode == 0
