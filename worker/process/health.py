"""The socket on which a worker process reports its health to `kvjobs worker ping --here` (`jobs.dispatch.health`)."""

import logging
import secrets
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from os import getpid

from jobs.dispatch.health import Health, address, socket_folder_and_prefix, sockets
from jobs.settings import Settings
from jobs.system.private import make_folder

log = logging.getLogger(__name__)

SEND_TIMEOUT_S = 1.0  # until a client that does not read its answer is dropped


@contextmanager
def serve_health(settings: Settings, health: Callable[[], Health]) -> Iterator[None]:
    """Within this context, a thread answers each connection with the health. A worker without the socket (its home
    folder is read-only) works all the same: `ping` then reads its heartbeat from the database."""
    folder, prefix = socket_folder_and_prefix(settings)
    path = folder / f"{prefix}{getpid()}-{secrets.token_hex(4)}.sock"
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        make_folder(folder)
        _sweep(settings)
        with address(path) as name:
            listener.bind(name)
        listener.listen(16)
    except OSError as error:
        log.info(
            "no socket in %s (%s): kvjobs worker ping --here reads the heartbeat from the database instead",
            folder,
            error,
        )
    else:
        threading.Thread(target=_serve, args=(listener, health), daemon=True).start()
    try:
        yield
    finally:
        with suppress(OSError):  # it was not made, or is not listening
            path.unlink(missing_ok=True)
            listener.shutdown(socket.SHUT_RDWR)  # ends the accept of the thread
        listener.close()


def _serve(listener: socket.socket, health: Callable[[], Health]) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:  # closed
            return
        with connection, suppress(OSError):  # the client has gone
            connection.settimeout(SEND_TIMEOUT_S)
            connection.sendall(health().line())


def _sweep(settings: Settings) -> None:
    """Remove the sockets of processes that were killed: connections to them are refused."""
    for path in sockets(settings):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.setblocking(False)
            try:
                with address(path) as name:
                    probe.connect(name)
            except ConnectionRefusedError:
                path.unlink(missing_ok=True)
            except OSError:  # it is alive, or cannot be reached
                pass
