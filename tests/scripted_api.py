"""A server on loopback that answers as a test says: correctly, wrongly, too late, or not to the end."""

import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from worker.providers.http.client import ServerAccess

Behaviour = Callable[["Request", socket.socket], None]


@dataclass(frozen=True, slots=True)
class Request:
    """What the client sent."""

    method: str
    path: str
    headers: dict[str, str]  # names in lower case
    body: Any  # of JSON; None: no body


@dataclass
class ScriptedApi:
    """Answers the requests in turn by `behaviours`; the last one answers all that follow."""

    behaviours: list[Behaviour]
    requests: list[Request] = field(default_factory=list)
    port: int = 0
    most_at_once: int = 0
    _open: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def access(self, **values: Any) -> ServerAccess:
        given = {"concurrency": 4, "timeout_s": 5.0, "attempts": 3} | values
        return ServerAccess(base_url=f"http://127.0.0.1:{self.port}/v1", **given)

    def serve(self, connection: socket.socket) -> None:
        """Requests of one connection, until either side closes it."""
        with connection, connection.makefile("rb") as lines:
            while request := _read(lines):
                with self._lock:
                    behave = self.behaviours[min(len(self.requests), len(self.behaviours) - 1)]
                    self.requests.append(request)
                    self._open += 1
                    self.most_at_once = max(self.most_at_once, self._open)
                try:
                    behave(request, connection)
                except OSError:  # the client is gone
                    return
                finally:
                    with self._lock:
                        self._open -= 1
                if connection.fileno() < 0:
                    return


@contextmanager
def serving(*behaviours: Behaviour, tls: ssl.SSLContext | None = None) -> Iterator[ScriptedApi]:
    """A server with these behaviours, at a free port; with `tls` it speaks TLS."""
    api = ScriptedApi(list(behaviours))
    listener = socket.create_server(("127.0.0.1", 0))
    api.port = listener.getsockname()[1]
    connections: list[socket.socket] = []

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:  # closed
                return
            connections.append(connection)
            threading.Thread(target=_quietly, args=(api, connection, tls), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield api
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()
        for connection in connections:
            connection.close()


def _quietly(api: ScriptedApi, connection: socket.socket, tls: ssl.SSLContext | None) -> None:
    try:
        api.serve(tls.wrap_socket(connection, server_side=True) if tls else connection)
    except (OSError, ValueError):  # closed by either side in the middle of a line
        connection.close()


def _read(lines: Any) -> Request | None:
    first = lines.readline().decode().split()
    if not first:
        return None
    headers = {}
    while line := lines.readline().decode().strip():
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    content = lines.read(int(headers.get("content-length", 0)))
    return Request(first[0], first[1], headers, json.loads(content) if content else None)


def says(body: Any, status: int = 200, **headers: str) -> Behaviour:
    """The whole answer at once: JSON, or bytes as they are."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()

    def behave(_: Request, connection: socket.socket) -> None:
        connection.sendall(_head(status, len(content), headers) + content)

    return behave


def answers(make: Callable[[Request], Any], *, after_s: float = 0.0) -> Behaviour:
    """The JSON that `make` gives."""

    def behave(request: Request, connection: socket.socket) -> None:
        time.sleep(after_s)
        says(make(request))(request, connection)

    return behave


def stalls(_: Request, connection: socket.socket) -> None:
    """Sends nothing, and keeps the connection open."""
    connection.settimeout(30)
    connection.recv(1)


def drips(_: Request, connection: socket.socket) -> None:
    """Sends a byte of the answer from time to time: never long enough for a time-out between two bytes."""
    connection.sendall(_head(200, 1_000, {}))
    while True:
        connection.sendall(b" ")
        time.sleep(0.05)


def hangs_up(_: Request, connection: socket.socket) -> None:
    """Closes the connection without an answer."""
    connection.shutdown(socket.SHUT_RDWR)
    connection.close()


def cuts(body: Any) -> Behaviour:
    """Closes the connection in the middle of the answer."""
    content = json.dumps(body).encode()

    def behave(_: Request, connection: socket.socket) -> None:
        connection.sendall(_head(200, len(content), {}) + content[: len(content) // 2])
        connection.shutdown(socket.SHUT_RDWR)
        connection.close()

    return behave


def floods(_: Request, connection: socket.socket) -> None:
    """An answer without an end."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n")
    while True:
        connection.sendall(b" " * (1 << 20))


def _head(status: int, length: int, headers: dict[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} Scripted", "Content-Type: application/json", f"Content-Length: {length}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode()
