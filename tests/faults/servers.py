"""Throwaway servers: a Redis, a PostgreSQL and a PgBouncer on a free port, with their data in a temporary folder.

Knows: how to start one, stop it, kill it, and start it again on the same port with the data that it kept.
Does not know: what a test does with it.
"""

import atexit
import configparser
import contextlib
import functools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import textwrap
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import pytest
from sqlalchemy import make_url

from tests.faults.processes import descendants
from tests.places import CHECKOUT

START_S = 30.0


class Server(ABC):
    """A server process and its folder. As a context manager it runs from the start to the end of the block."""

    def __init__(self) -> None:
        self.port = free_port()
        self.folder = Path(tempfile.mkdtemp(prefix="kvjobs-server-"))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    @abstractmethod
    def url(self) -> str:
        """Its URL for clients."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it and wait until it answers. Raises RuntimeError, with the end of its log, where it does not."""
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        deadline = time.monotonic() + START_S
        while not self._answers():
            if not self.is_running or time.monotonic() > deadline:
                raise RuntimeError(f"{self._command()[0]} did not start:\n{(self.folder / 'log').read_text()[-2000:]}")
            time.sleep(0.05)

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Stop it with this signal, and wait for its end."""
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(timeout=START_S)

    def kill(self) -> None:
        """SIGKILL every process of the server."""
        if self._process is not None:
            for pid in _session(self._process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._process.wait()

    def restart(self, number: int = signal.SIGTERM) -> None:
        """`stop` and `start`."""
        self.stop(number)
        self.start()

    @abstractmethod
    def _command(self) -> list[str]: ...

    @abstractmethod
    def _answers(self) -> bool: ...


class RedisServer(Server):
    """A Redis without persistence, or (`appendonly`) one that keeps every write."""

    def __init__(self, *, appendonly: bool = False) -> None:
        self._binary = _find("redis-server")
        super().__init__()
        self._appendonly = appendonly

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def flush(self) -> None:
        """FLUSHALL: every message is gone."""
        if not self._ask(b"FLUSHALL").startswith(b"+OK"):
            raise RuntimeError("the Redis did not flush")

    def _command(self) -> list[str]:
        keep = ["--save", "", "--appendonly", "yes" if self._appendonly else "no", "--dir", str(self.folder)]
        return [
            self._binary,
            "--port",
            str(self.port),
            "--bind",
            "127.0.0.1",
            "--maxmemory-policy",
            "noeviction",
            *keep,
        ]

    def _answers(self) -> bool:
        try:
            return self._ask(b"PING").startswith(b"+PONG")
        except OSError:
            return False

    def _ask(self, command: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
            connection.sendall(command + b"\r\n")
            return connection.recv(100)


class PostgresServer(Server):
    """A PostgreSQL with default settings, `fsync` on. `stop(signal.SIGINT)` is its fast shutdown, SIGQUIT the
    immediate one, after which it recovers from its log."""

    def __init__(self) -> None:
        self._binary = _find("postgres")
        super().__init__()
        self._hosts = "127.0.0.1"
        self._frozen: list[int] = []
        self.data = self.folder / "data"
        shutil.copytree(_template(), self.data)
        if os.geteuid() == 0:
            subprocess.run(["chown", "-R", "postgres", str(self.folder)], check=True)

    @property
    def url(self) -> str:
        return self.url_at(self.port)

    def url_at(self, port: int, host: str = "127.0.0.1") -> str:
        """The same database through another port, where a proxy listens, or another address."""
        return f"postgresql+psycopg://postgres@{host}:{port}/postgres"

    def listen_on(self, host: str) -> None:
        """Listen on one more address; restarts the server."""
        self._hosts = f"127.0.0.1,{host}"
        with (self.data / "pg_hba.conf").open("a") as rules:
            rules.write("host all all samenet trust\n")
        self.restart(signal.SIGINT)

    def offer_tls(self) -> None:
        """Accept TLS, with a self-signed certificate."""
        files = ["-keyout", str(self.data / "server.key"), "-out", str(self.data / "server.crt")]
        made = [_find("openssl"), "req", "-new", "-x509", "-nodes", "-subj", "/CN=127.0.0.1", *files]
        subprocess.run(as_postgres(made), check=True, capture_output=True, cwd=self.folder)
        self.set("ssl", "on")

    def set(self, name: str, value: str) -> None:
        """Change a setting of the whole server, also for open sessions."""
        self.sql(f"ALTER SYSTEM SET {name} = {value}")
        self.sql("SELECT pg_reload_conf()")

    def become_standby(self) -> None:
        """Restart as a standby, as after a failover to a server that is not promoted yet: it can only be read."""
        self.stop(signal.SIGINT)
        (self.data / "standby.signal").touch()
        self.start()

    def promote(self) -> None:
        """End being a standby: accept writes again."""
        self.sql("SELECT pg_promote()")

    def freeze(self) -> None:
        """SIGSTOP to every process of it. The kernel still accepts connections and receives bytes for it."""
        assert self._process is not None
        self._frozen = [
            self._process.pid,
            *descendants(self._process.pid),
        ]  # each backend process is in a session of its own
        for pid in self._frozen:
            os.kill(pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT."""
        for pid in self._frozen:
            os.kill(pid, signal.SIGCONT)

    def sql(self, statement: str) -> str:
        """The output of psql for a statement; independent of kvjobs' own code."""
        asked = [_find("psql"), "-qAtX", *self._place(), "-c", statement]
        writing = os.environ | {"PGOPTIONS": "-c default_transaction_read_only=off"}
        done = subprocess.run(asked, check=True, capture_output=True, text=True, timeout=START_S, env=writing)
        return done.stdout.strip()

    def dump(self, file: Path) -> None:
        """Write a backup of the whole database."""
        subprocess.run([_find("pg_dump"), "--format=custom", f"--file={file}", *self._place()], check=True)

    def restore(self, file: Path) -> None:
        """Restore the whole database from a backup."""
        command = [_find("pg_restore"), "--clean", "--if-exists", "--single-transaction"]
        subprocess.run([*command, *self._place(), str(file)], check=True)

    def terminate_backends(self) -> None:
        """Make the server close every connection except the one of this statement."""
        self.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")

    def _place(self) -> list[str]:
        return ["-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", "-d", "postgres"]

    def _command(self) -> list[str]:
        options = {
            "port": self.port,
            "listen_addresses": self._hosts,
            "unix_socket_directories": self.folder,
            "max_connections": 100,
            "fsync": "on",
        }
        settings = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
        return as_postgres([self._binary, "-D", str(self.data), *settings])

    def _answers(self) -> bool:
        try:
            return self.sql("SELECT 1") == "1"
        except subprocess.SubprocessError:
            return False


class PgBouncer(Server):
    """A PgBouncer with the file that docs/fleet.md shows, before a PostgreSQL of this machine: in transaction mode, any
    two transactions of a client may run in different sessions of the server."""

    def __init__(self, server: str, *, sessions: int | None = None) -> None:
        """`server`: the URL of the server, with the user who may log in; without a password any user may. `sessions`:
        those that all clients of a database share."""
        self._binary = _find("pgbouncer")
        super().__init__()
        self._server = make_url(server)
        documented = configparser.ConfigParser(interpolation=None)
        documented.read_string(_ini_of((CHECKOUT / "docs" / "fleet.md").read_text()))
        own = {"listen_addr": "127.0.0.1", "listen_port": self.port, "auth_file": self.folder / "users"}
        own |= {"unix_socket_dir": "", "ignore_startup_parameters": ""}
        own |= {} if self._server.password else {"auth_type": "trust"}
        own |= {"default_pool_size": sessions} if sessions else {}
        documented["pgbouncer"].update({name: str(value) for name, value in own.items()})
        documented["databases"] = {"*": f"host={self._server.host} port={self._server.port}"}
        with (self.folder / "ini").open("w") as file:
            documented.write(file)
        (self.folder / "users").write_text(f'"{self._server.username}" "{self._server.password or ""}"\n')
        if os.geteuid() == 0:
            subprocess.run(["chown", "-R", "postgres", str(self.folder)], check=True)

    @property
    def url(self) -> str:
        return self._server.set(host="127.0.0.1", port=self.port).render_as_string(hide_password=False)

    def _command(self) -> list[str]:
        return as_postgres([self._binary, str(self.folder / "ini")])

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=5).close()
        except OSError:
            return False
        return True


def _ini_of(page: str) -> str:
    """The pgbouncer.ini that a page of the documentation shows: an indented block that begins with its sections."""
    begin = page.index("    [databases]")
    block = page[begin:].partition("\n\n-")[0]
    indented = [line for line in block.splitlines() if line.startswith("    ") or not line]
    return textwrap.dedent("\n".join(indented))


def free_port() -> int:
    """A port that no process listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def missing(reason: str) -> None:
    """Skip the test because this machine lacks something; in CI fail, where a skip would go unnoticed."""
    if os.environ.get("CI"):
        pytest.fail(f"{reason}; CI must have it")
    pytest.skip(reason)


def as_postgres(command: Sequence[str]) -> list[str]:
    """The command as the user postgres where this process is root: PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return list(command)
    try:
        pwd.getpwnam("postgres")
    except KeyError:
        missing("PostgreSQL does not run as root, and there is no user postgres")
    # setpriv becomes the server; runuser would stay in between and swallow a SIGKILL.
    return ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", *command]


@functools.cache
def _template() -> Path:
    """An empty cluster, made once per session to be copied: initdb takes a second or two, a copy 0.1 s."""
    folder = Path(tempfile.mkdtemp(prefix="kvjobs-cluster-"))
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres")
    initdb = [_find("initdb"), "-D", str(folder / "data"), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync"]
    subprocess.run(as_postgres([*initdb, "--locale=C"]), check=True, capture_output=True, cwd=folder)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder / "data"


def _find(name: str) -> str:
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name))
    folders = [*map(str, reversed(debian)), os.environ.get("PATH", os.defpath), "/usr/sbin"]
    found = shutil.which(name, path=os.pathsep.join(folders))
    if found is None:
        missing(f"{name} is not installed here")
    assert found
    return found


def _session(pid: int) -> list[int]:
    """The processes of a session: a server's children stay in the session that it was started in."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                session = int((entry / "stat").read_bytes().rpartition(b")")[2].split()[3])
            except OSError:
                continue
            if session == pid:
                found.append(int(entry.name))
    return found
