"""Rules for each layer of tests (a folder below tests/): which actions fail its tests, such as starting a process.

An audit hook detects processes, sockets and SQLite; wrappers detect PostgreSQL, `time.sleep` and onnxruntime
sessions. A forbidden action raises `Forbidden` before it happens, in a test and in its fixtures. A test that catches
the error fails at its end. Not detected: waiting by other means, such as an event or a `select` with a timeout.
"""

import functools
import importlib
import multiprocessing.util
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from sqlalchemy import Engine, event

from tests.places import TESTS

PROCESS, SOCKET, SLEEP = "start a process", "open a socket", "sleep"
DATABASE, SESSION = "connect to a database", "open an onnxruntime session"
FORBIDDEN = {
    "unit": {PROCESS, SOCKET, SLEEP, DATABASE, SESSION},
    "models": {DATABASE},  # opening a tokenizer tries its expressions in a process
    "store": {PROCESS, SESSION},
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


@functools.cache
def layer_of(path: Path) -> str:
    """The folder below tests/ in which a test stands. It is asked for four times a test."""
    layer = path.relative_to(TESTS).parts[0]
    if not (TESTS / layer).is_dir():
        raise pytest.UsageError(f"{path} stands in no layer: put it into a folder below tests/")
    return layer


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
    _guard(multiprocessing.util, "spawnv_passfds", PROCESS)  # starts a process without an audit event
    event.listen(Engine, "do_connect", lambda *_: _watch.refuse(DATABASE))  # psycopg opens its sockets in C
    if psycopg := _imported("psycopg"):
        _guard(psycopg, "connect", DATABASE)


def _imported(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _guard(owner: Any, name: str, action: str) -> None:
    """Refuse calls of `owner.name` in the layers that forbid the action."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        _watch.refuse(action)
        return original(*args, **kwargs)

    setattr(owner, name, guarded)


@functools.cache
def _install_for_sessions() -> None:
    from onnxruntime import InferenceSession

    from worker.kernels.compiled import compiled_kernels

    compiled_kernels()  # opens a session, once per process, to see whether they are right
    _guard(InferenceSession, "__init__", SESSION)
