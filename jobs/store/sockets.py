"""The connections of an engine to a server, as something that can be cut from outside.

A server that was stopped, or whose disk hangs, keeps its side of a connection alive and answers nothing: no time limit
of TCP's ends that, and libpq has none of its own for a statement. Whoever waits for its answer learns only so that
something is wrong.
"""

import contextlib
import os
import socket
import threading
import weakref
from typing import Any

from sqlalchemy import Engine, event


class Sockets:
    """Every open connection of one engine; none where the database is a file."""

    def __init__(self, engine: Engine) -> None:
        self._open: weakref.WeakSet[Any] = weakref.WeakSet()
        self._lock = threading.Lock()
        if engine.dialect.name == "postgresql":
            event.listen(engine, "connect", self._add)

    def cut(self) -> None:
        """End every connection: whoever waits for an answer gets an error, and the pool connects anew."""
        with self._lock:
            connections = list(self._open)
        for connection in connections:
            if not connection.closed:
                with contextlib.suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as copy:
                    copy.shutdown(socket.SHUT_RDWR)

    def _add(self, connection: Any, _record: Any) -> None:
        with self._lock:
            self._open.add(connection)
