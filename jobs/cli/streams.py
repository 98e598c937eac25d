"""The three standard streams: usable even if the shell closed them, and never the cause of a Python traceback."""

import io
import os
import sys
from typing import Any, TextIO

from jobs.errors import SpecError

STANDARD_OUTPUT = "standard output"  # the file name in its errors


def prepare_streams() -> None:
    """Open /dev/null in the place of a stream that the shell closed (`>&-`).

    Otherwise the next file that is opened, such as the database, would get its number, and be written to. Writing to a
    closed standard output still fails; messages to a closed standard error are dropped.
    """
    for number, access in enumerate((os.O_RDONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, access), True)
    sys.stdin = sys.stdin or io.TextIOWrapper(io.BufferedReader(_ClosedInput()))
    sys.stdout = _standard_output(sys.stdout.encoding if sys.stdout else "utf-8")
    sys.stderr = sys.stderr or _standard_error()
    if hasattr(sys.stderr, "reconfigure"):
        sys.stderr.reconfigure(errors="backslashreplace")


def settle_streams() -> None:
    """Drop what cannot be flushed: Python would flush again at exit, and print a traceback."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)


class _StandardOutput(io.FileIO):
    """Raises an OSError that names standard output; Python's own names no file."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            raise OSError(error.errno, error.strerror, STANDARD_OUTPUT) from None


class _ClosedInput(io.RawIOBase):
    """Stands for a standard input that the shell closed: reading it raises an error that says so."""

    def readable(self) -> bool:
        return True

    def readinto(self, _buffer: Any, /) -> int:
        raise SpecError("there is no standard input: it is closed; name a file")


def _standard_output(encoding: str) -> TextIO:
    """Buffered, whatever PYTHONUNBUFFERED says: an unbuffered file may write a part of the data without an error."""
    buffer = io.BufferedWriter(_StandardOutput(1, "w", closefd=False))
    # backslashreplace: an old locale must not turn a translation into a crash.
    return io.TextIOWrapper(buffer, encoding, errors="backslashreplace", line_buffering=buffer.isatty())


def _standard_error() -> TextIO:
    return open(2, "w", encoding="utf-8", closefd=False)
