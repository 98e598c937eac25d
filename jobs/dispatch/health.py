"""
Asking the workers of this machine for their health, without the database and the broker.

Each worker process answers on a Unix socket in the home folder (`worker.process.health`). A process that hangs or is
stopped does not answer, even if its heartbeat in the database is recent.
"""

import hashlib
import json
import os
import selectors
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from jobs.settings import Settings, hide_passwords
from jobs.system.process import is_here, this_machine

FOLDER = "run"  # in the home folder
LONGEST_ADDRESS = 100  # bytes of a socket's path; the kernel takes 107
LONGEST_ANSWER = 4096  # bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """The health that a worker process reports."""

    worker_id: int | None
    host: str
    pid: int
    machine: str  # the id of its machine (`jobs.system.process.this_machine`)
    lives: bool  # its lanes run, and the database answered its heartbeat within the time of a lease
    silent_s: float | None  # seconds since that answer

    def line(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"

    @property
    def is_here(self) -> bool:
        """Whether the worker is a process of this machine; a home folder may be shared."""
        return is_here(self.machine, self.host)


def socket_folder_and_prefix(settings: Settings) -> tuple[Path, str]:
    """The folder of the sockets, and the prefix of their names for this database."""
    database = hashlib.sha256(hide_passwords(settings.database_url).encode()).hexdigest()
    return settings.home / FOLDER, f"{database[:12]}-"


@contextmanager
def address(path: Path) -> Iterator[str]:
    """A path of the socket that is short enough for the kernel, however deep its folder is. Raises OSError."""
    if len(bytes(path)) <= LONGEST_ADDRESS:
        yield str(path)
        return
    handle = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{handle}/{path.name}"
    finally:
        os.close(handle)


def ask(settings: Settings, timeout_s: float) -> list[Health]:
    """The health of the workers of this machine. A process that does not answer within `timeout_s` has `lives` False;
    processes that have ended are left out."""
    deadline = time.monotonic() + timeout_s
    found: list[Health] = []
    with ExitStack() as stack, selectors.DefaultSelector() as waiting:
        for path in sockets(settings):
            connection = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            connection.setblocking(False)
            try:
                with address(path) as name:
                    connection.connect(name)
            except BlockingIOError:  # its backlog is full of questions that it does not answer
                found.append(_silent(path))
            except OSError:  # it has ended
                continue
            else:
                waiting.register(connection, selectors.EVENT_READ, path)
        while waiting.get_map() and (left := deadline - time.monotonic()) > 0:
            for key, _ in waiting.select(left):
                assert isinstance(key.fileobj, socket.socket)
                if (health := _answer(key.fileobj)) is not None:
                    found.append(health)
                waiting.unregister(key.fileobj)
        found.extend(_silent(key.data) for key in waiting.get_map().values())
    return sorted((worker for worker in found if worker.is_here), key=lambda worker: -(worker.worker_id or 0))


def sockets(settings: Settings) -> list[Path]:
    """The sockets of all workers on this database, including workers that have ended."""
    folder, prefix = socket_folder_and_prefix(settings)
    return sorted(folder.glob(f"{prefix}*.sock"))


def _answer(connection: socket.socket) -> Health | None:
    """The answer of a worker process; None if it ended before it answered."""
    with suppress(OSError, ValueError, TypeError):
        return Health(**json.loads(connection.recv(LONGEST_ANSWER)))
    return None


def _silent(path: Path) -> Health:
    """The health of a process that has its socket open and does not answer."""
    pid = int(path.stem.rsplit("-", 2)[1])
    return Health(
        worker_id=None, host=socket.gethostname(), pid=pid, machine=this_machine(), lives=False, silent_s=None
    )
