"""On PYTHONPATH: simulates hidepid. A process sees only itself in /proc, and every other process
belongs to another user."""

import os
import pathlib
import re

_read_bytes, _kill = pathlib.Path.read_bytes, os.kill


def _read_if_own(path):
    if (found := re.fullmatch(r"/proc/(\d+)/stat", str(path))) and int(found[1]) != os.getpid():
        raise FileNotFoundError(2, "No such file or directory", str(path))
    return _read_bytes(path)


def _kill_if_own(pid, number):
    if number == 0 and pid != os.getpid():
        _kill(pid, 0)  # raises ProcessLookupError if there is no such process, as the kernel does
        raise PermissionError(1, "Operation not permitted")
    _kill(pid, number)


pathlib.Path.read_bytes = _read_if_own
os.kill = _kill_if_own
