"""The socket on which a worker process says how it is, to `kvjobs worker ping --here` (`jobs.dispatch.health`)."""

import logging
import secrets
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from os import getpid

from jobs.dispatch.health import Health, address, place, sockets
from jobs.private import make_folder
from jobs.settings import Settings

log = logging.getLogger(__name__)

TAKE_S = 1.0  # how long whoever asks may take to take the answer


@contextmanager
def answering(settings: Settings, health: Callable[[], Health]) -> Iterator[None]:
    """While inside, a thread answers whoever asks. A worker that cannot be asked so (a home folder that cannot be
    written) works all the same: `ping` then reads its heartbeat from the database."""
    folder, prefix = place(settings)
    path = folder / f"{prefix}{getpid()}-{secrets.token_hex(4)}.sock"
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        make_folder(folder)
        _sweep(settings)
        with address(path) as name:
            listener.bind(name)
        listener.listen(16)
    except OSError as error:
        log.info("kvjobs worker ping --here has to ask the database: no socket in %s (%s)", folder, error)
    else:
        threading.Thread(target=_serve, args=(listener, health), daemon=True).start()
    try:
        yield
    finally:
        with suppress(OSError):  # there is none, or no connection to shut
            path.unlink(missing_ok=True)
            listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits in accept
        listener.close()


def _serve(listener: socket.socket, health: Callable[[], Health]) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:  # closed
            return
        with connection, suppress(OSError):  # whoever asked has gone
            connection.settimeout(TAKE_S)
            connection.sendall(health().line())


def _sweep(settings: Settings) -> None:
    """Remove the sockets of those that were killed: nobody listens there."""
    for path in sockets(settings):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.setblocking(False)
            try:
                with address(path) as name:
                    probe.connect(name)
            except ConnectionRefusedError:
                path.unlink(missing_ok=True)
            except OSError:  # it lives, or is not ours to judge
                pass
