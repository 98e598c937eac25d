"""Rules for each layer of tests (a folder below tests/): which actions fail its tests, such as starting a process.

An audit hook detects processes, sockets and SQLite; wrappers detect other databases, sleeping and onnxruntime
sessions. A forbidden action raises `Forbidden` before it happens. A test that catches the error fails at its end.
"""

import functools
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, event

from tests.places import TESTS

PROCESS, SOCKET, SLEEP = "start a process", "open a socket", "sleep"
DATABASE, SESSION = "connect to a database", "open an onnxruntime session"
FORBIDDEN = {
    "unit": {PROCESS, SOCKET, SLEEP, DATABASE, SESSION},
    "models": {DATABASE},
    "store": {PROCESS},
    "commands": {PROCESS},
}
AUDIT_EVENTS = {
    "os.exec": PROCESS,
    "os.fork": PROCESS,
    "os.forkpty": PROCESS,
    "os.posix_spawn": PROCESS,
    "os.system": PROCESS,
    "subprocess.Popen": PROCESS,
    "socket.__new__": SOCKET,
    "sqlite3.connect": DATABASE,
}


class Forbidden(AssertionError):
    """A test attempted an action that its layer forbids."""


@dataclass
class _Watch:
    """The layer of the test that runs in this process, and its violations so far."""

    layer: str = ""
    seen: list[str] = field(default_factory=list)

    def refuse(self, action: str) -> None:
        if action in FORBIDDEN.get(self.layer, ()):
            self.seen.append(f"a test in tests/{self.layer} may not {action}: it belongs to another layer")
            raise Forbidden(self.seen[-1])


_watch = _Watch()


def layer_of(path: Path) -> str:
    """The folder below tests/ that contains a test."""
    return path.relative_to(TESTS).parts[0]


@contextmanager
def rules_of(layer: str) -> Iterator[None]:
    """Raise `Forbidden` if the block attempts an action that the layer forbids."""
    forbidden = FORBIDDEN.get(layer, frozenset())
    _install()
    if SESSION in forbidden:
        _install_for_sessions()
    before, sleep, seen = replace(_watch), time.sleep, list[str]()
    _watch.layer, _watch.seen = layer, seen
    if SLEEP in forbidden:
        time.sleep = lambda _seconds: _watch.refuse(SLEEP)  # no audit event before Python 3.13
    try:
        yield
    finally:
        time.sleep = sleep
        _watch.layer, _watch.seen = before.layer, before.seen
    if seen:
        raise Forbidden(seen[0])


@functools.cache
def _install() -> None:
    def audit(name: str, _arguments: Any) -> None:
        if name in AUDIT_EVENTS:
            _watch.refuse(AUDIT_EVENTS[name])

    sys.addaudithook(audit)
    event.listen(Engine, "do_connect", lambda *_: _watch.refuse(DATABASE))  # psycopg connects in C


@functools.cache
def _install_for_sessions() -> None:
    from onnxruntime import InferenceSession

    init = InferenceSession.__init__

    def guarded(session: InferenceSession, *args: Any, **kwargs: Any) -> None:
        _watch.refuse(SESSION)
        init(session, *args, **kwargs)

    InferenceSession.__init__ = guarded
