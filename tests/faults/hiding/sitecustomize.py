"""On PYTHONPATH: a stand-in for hidepid. /proc shows no process but the one that looks, and every other is somebody
else's."""

import os
import pathlib
import re

_read_bytes, _kill = pathlib.Path.read_bytes, os.kill


def _read_what_is_shown(path):
    if (found := re.fullmatch(r"/proc/(\d+)/stat", str(path))) and int(found[1]) != os.getpid():
        raise FileNotFoundError(2, "No such file or directory", str(path))
    return _read_bytes(path)


def _kill_ones_own(pid, number):
    if number == 0 and pid != os.getpid():
        _kill(pid, 0)  # the kernel does not deny a process that lives
        raise PermissionError(1, "Operation not permitted")
    _kill(pid, number)


pathlib.Path.read_bytes = _read_what_is_shown
os.kill = _kill_ones_own
