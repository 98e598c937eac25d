"""The connections of an engine to a server, as something that can be cut from outside.

A server that was stopped, or whose disk hangs, keeps its side of a connection alive and answers nothing: no time limit
of TCP's ends that, and libpq has none of its own for a statement. Whoever waits for its answer learns only so that
something is wrong.
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
    """Every open connection of one engine; none where the database is a file."""

    def __init__(self, engine: Engine) -> None:
        self._open: weakref.WeakSet[Any] = weakref.WeakSet()
        self._began: dict[object, float] = {}  # of each transaction that is not over
        self._lock = threading.Lock()
        if engine.dialect.name == "postgresql":
            event.listen(engine, "connect", self._add)

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """Around a transaction, from before it has a connection."""
        transaction = object()
        with self._lock:
            self._began[transaction] = time.monotonic()
        try:
            yield
        finally:
            with self._lock:
                self._began.pop(transaction, None)

    def cut(self, silence_s: float) -> bool:
        """End every connection if a transaction lasts longer than that: whoever waits for an answer gets an error, and
        the pool connects anew. Whether it did."""
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
