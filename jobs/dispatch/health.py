"""
Asking the workers of this machine how they are, without the database and the broker.

Each worker process answers on a socket in the home folder (`worker.process.health`). One that hangs or is stopped does
not answer, whatever the database still says.
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

from jobs.process import is_here, this_machine
from jobs.settings import Settings, hide_passwords

FOLDER = "run"  # in the home folder
LONGEST_ADDRESS = 100  # bytes of a socket's path; the kernel takes 107
LONGEST_ANSWER = 4096  # bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """What a worker process says of itself."""

    worker_id: int | None
    host: str
    pid: int
    machine: str  # as `jobs.process` has it
    lives: bool  # its lanes run, and its heartbeat had an answer from the database within a lease
    silent_s: float | None  # since that answer

    def line(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"

    @property
    def is_here(self) -> bool:
        """Whether it is a process of this machine: a home folder may be shared."""
        return is_here(self.machine, self.host)


def place(settings: Settings) -> tuple[Path, str]:
    """The folder of the sockets, and what the names of those begin with that belong to this database."""
    database = hashlib.sha256(hide_passwords(settings.database_url).encode()).hexdigest()
    return settings.home / FOLDER, f"{database[:12]}-"


@contextmanager
def address(path: Path) -> Iterator[str]:
    """The path of a socket, short enough for the kernel however deep the folder lies. Raises OSError."""
    if len(bytes(path)) <= LONGEST_ADDRESS:
        yield str(path)
        return
    handle = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{handle}/{path.name}"
    finally:
        os.close(handle)


def ask(settings: Settings, timeout_s: float) -> list[Health]:
    """What the workers of this machine answer; one that does not within the time lives no more. Those that have ended
    are not in the list."""
    deadline = time.monotonic() + timeout_s
    found: list[Health] = []
    with ExitStack() as stack, selectors.DefaultSelector() as waiting:
        for path in sockets(settings):
            connection = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            connection.setblocking(False)
            try:
                with address(path) as name:
                    connection.connect(name)
            except BlockingIOError:  # so many ask and get no answer that its queue is full
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
    return sorted((one for one in found if one.is_here), key=lambda one: -(one.worker_id or 0))


def sockets(settings: Settings) -> list[Path]:
    """Of the workers on this database, whether they live or not."""
    folder, prefix = place(settings)
    return sorted(folder.glob(f"{prefix}*.sock"))


def _answer(connection: socket.socket) -> Health | None:
    """None where the process ended over the question."""
    with suppress(OSError, ValueError, TypeError):
        return Health(**json.loads(connection.recv(LONGEST_ANSWER)))
    return None


def _silent(path: Path) -> Health:
    """A process that holds its socket and does not answer on it."""
    pid = int(path.stem.rsplit("-", 2)[1])
    return Health(
        worker_id=None, host=socket.gethostname(), pid=pid, machine=this_machine(), lives=False, silent_s=None
    )
