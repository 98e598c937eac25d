"""The three standard streams: there whatever the shell closed, and never a reason for a message of Python's own."""

import io
import os
import sys
from typing import TextIO


def prepare_streams() -> None:
    """Give a stream that the shell closed (`>&-`) its number back, lest the next file that is opened, which may be the
    database, gets it. What is written to a closed standard output fails as it should; messages without a standard
    error go nowhere."""
    for number, access in enumerate((os.O_RDONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, access), True)
    # With PYTHONUNBUFFERED the bytes go to the file itself, which may take a part of them and say nothing.
    is_raw = isinstance(getattr(sys.stdout, "buffer", None), io.RawIOBase)
    sys.stdout = _stream(1, sys.stdout.encoding) if is_raw else sys.stdout or _stream(1)
    sys.stderr = sys.stderr or _stream(2)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # an old locale must not turn a translation into a crash
            stream.reconfigure(errors="backslashreplace")


def settle_streams() -> bool:
    """Let what cannot be written go nowhere, instead of to a message of Python's last flush; whether standard output
    took all."""
    took_all = True
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            took_all = took_all and stream is not sys.stdout
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)
    return took_all


def _stream(number: int, encoding: str = "utf-8") -> TextIO:
    return open(number, "w", encoding=encoding, closefd=False)
