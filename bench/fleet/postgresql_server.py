"""A PostgreSQL server for one measurement, with room for thousands of connections, and what its processes cost.

Knows: the programs of PostgreSQL, /proc. Does not know: tables, workers.
"""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

UNPRIVILEGED = "postgres"  # initdb refuses root
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class PostgresqlServer:
    """A running server."""

    url: str  # of the database `postgres`
    pid: int

    def database_url(self, name: str) -> str:
        return self.url.removesuffix("/postgres") + f"/{name}"

    def cpu_s(self) -> float:
        """Seconds of processor time of the server and all its sessions so far, those that have ended included."""
        # The postmaster counts the children that it has waited for; those that live are added.
        return _cpu_s(self.pid, ended_children=True) + sum(_cpu_s(pid) for pid in _children(self.pid))

    def memory(self) -> int:
        """Bytes of main memory of all its processes, what they share counted once."""
        return sum(_proportional_memory(pid) for pid in (self.pid, *_children(self.pid)))


@contextmanager
def postgresql_server(max_connections: int, settings: Mapping[str, str]) -> Iterator[PostgresqlServer]:
    """A new server on a free port, which is stopped and deleted when the block ends."""
    programs = _programs()
    with tempfile.TemporaryDirectory(prefix="kvjobs-bench-") as name:
        folder, user = Path(name), UNPRIVILEGED if os.geteuid() == 0 else None
        folder.chmod(0o755)
        data = folder / "data"
        data.mkdir(mode=0o700)
        if user:
            shutil.chown(data, user)
        initialize = [programs / "initdb", "--pgdata", data, "--username", "postgres", "--auth", "trust", "--no-sync"]
        subprocess.run(initialize, user=user, cwd=folder, check=True, capture_output=True)
        port = _free_port()
        arguments = {
            "port": str(port),
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": str(data),
            "max_connections": str(max_connections),
            **settings,
        }
        options = [part for key, value in arguments.items() for part in ("-c", f"{key}={value}")]
        with (folder / "log").open("wb") as log:
            command = [programs / "postgres", "-D", data, *options]
            process = subprocess.Popen(command, user=user, cwd=folder, stdout=log, stderr=log)
        try:
            _wait_until_ready(process, programs, port, folder / "log")
            yield PostgresqlServer(f"postgresql+psycopg://postgres@127.0.0.1:{port}/postgres", process.pid)
        finally:
            process.terminate()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:  # a session is still open: it is interrupted
                process.send_signal(2)
                process.wait(timeout=60)


def _programs() -> Path:
    """The folder of the server's programs, which Debian keeps out of the path."""
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if not versions:
        raise SystemExit("bench.fleet_store needs the server of PostgreSQL: apt-get install postgresql")
    return versions[-1].parent


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_until_ready(process: subprocess.Popen[bytes], programs: Path, port: int, log: Path) -> None:
    is_ready = [programs / "pg_isready", "--host", "127.0.0.1", "--port", str(port), "--quiet"]
    deadline = time.monotonic() + 60
    while subprocess.run(is_ready, check=False).returncode:
        if process.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(f"PostgreSQL did not start:\n{log.read_text(errors='replace')[-2000:]}")
        time.sleep(0.1)


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _cpu_s(pid: int, *, ended_children: bool = False) -> float:
    """User and system time of a process; 0 if it has ended meanwhile."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return 0.0
    last = 15 if ended_children else 13
    return sum(int(ticks) for ticks in fields[11:last]) / CLOCK_TICKS


def _proportional_memory(pid: int) -> int:
    """Bytes, of which a page that n processes share counts one n-th; 0 where it cannot be read."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))
