"""The sockets of an engine's connections to a server, so that another thread can shut them down.

A server that was stopped (SIGSTOP), or whose disk hangs, keeps its side of a connection alive and answers nothing: no
timeout of TCP ends that, and libpq has none for a statement. A thread that waits for an answer gets an error only when
its socket is shut down.
"""

import contextlib
import os
import socket
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any

from sqlalchemy import Engine, event


class Sockets:
    """Every open connection of one engine; none for SQLite."""

    def __init__(self, engine: Engine) -> None:
        self._open: weakref.WeakSet[Any] = weakref.WeakSet()
        self._began: dict[object, float] = {}  # start of each open transaction, by `time.monotonic`
        self._lock = threading.Lock()
        if engine.dialect.name == "postgresql":
            event.listen(engine, "connect", self._add)

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """Note the start and the end of a transaction; entered before it has a connection."""
        transaction = object()
        with self._lock:
            self._began[transaction] = time.monotonic()
        try:
            yield
        finally:
            with self._lock:
                self._began.pop(transaction, None)

    def cut(self, silence_s: float) -> bool:
        """Shut down every connection if some transaction has lasted longer than `silence_s`; returns whether it did.
        Threads that wait for an answer get an error, and the pool opens new connections."""
        with self._lock:
            connections, now = list(self._open), time.monotonic()
            if not connections or all(now - began <= silence_s for began in self._began.values()):
                return False
            self._began = dict.fromkeys(self._began, now)
        for connection in connections:
            if not connection.closed:
                with contextlib.suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as copy:
                    copy.shutdown(socket.SHUT_RDWR)
        return True

    def _add(self, connection: Any, _record: Any) -> None:
        with self._lock:
            self._open.add(connection)
