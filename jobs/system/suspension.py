"""Ctrl-Z stops a command between two write transactions, never inside one, whose locks would be held until `fg`.

The signal's default action cannot be put off, so the command handles it, and sends it to itself again with the default
action once no transaction is open.
"""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_lock = threading.RLock()  # the handler may run in the thread that has it
_open = 0  # transactions of all threads
_is_wanted = False


def suspend_between_transactions() -> None:
    """From now on Ctrl-Z waits for the end of `unsuspended`. To be called in the main thread. Where the signal is
    ignored, it stays so."""
    if signal.getsignal(signal.SIGTSTP) == signal.SIG_DFL:
        signal.signal(signal.SIGTSTP, _suspend)


@contextmanager
def unsuspended() -> Iterator[None]:
    """Within this context Ctrl-Z does not stop the process; at its end it does, if it came meanwhile."""
    global _open, _is_wanted
    with _lock:
        _open += 1
    try:
        yield
    finally:
        with _lock:
            _open -= 1
            is_due = _is_wanted and not _open
            _is_wanted = _is_wanted and not is_due
        if is_due:
            os.kill(os.getpid(), signal.SIGTSTP)


def _suspend(_number: int, _frame: FrameType | None) -> None:
    global _is_wanted
    with _lock:
        if _open:
            _is_wanted = True
            return
    signal.signal(signal.SIGTSTP, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTSTP)  # stops here, until SIGCONT
    signal.signal(signal.SIGTSTP, _suspend)
