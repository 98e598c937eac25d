"""On PYTHONPATH: moves Python's wall clock by CLOCK_MOVED_S seconds, not its monotonic clock."""

import os
import time

_moved = float(os.environ.get("CLOCK_MOVED_S", "0"))
_true_time, _true_time_ns = time.time, time.time_ns
time.time = lambda: _true_time() + _moved
time.time_ns = lambda: _true_time_ns() + int(_moved * 1e9)

# datetime reads the system's clock itself, so its class is replaced.
import datetime  # noqa: E402 - after the clock is moved

_True = datetime.datetime


class _Moved(_True):
    @classmethod
    def now(cls, tz=None):
        return _True.fromtimestamp(time.time(), tz)

    @classmethod
    def utcnow(cls):
        return _True.fromtimestamp(time.time(), datetime.UTC).replace(tzinfo=None)


datetime.datetime = _Moved
