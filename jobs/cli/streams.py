"""The three standard streams: there whatever the shell closed, and never a reason for a message of Python's own."""

import io
import os
import sys
from typing import Any, TextIO

STANDARD_OUTPUT = "standard output"  # the file that an error names


def prepare_streams() -> None:
    """Give a stream that the shell closed (`>&-`) its number back, lest the next file that is opened, which may be the
    database, gets it. What is written to a closed standard output fails as it should; messages without a standard
    error go nowhere."""
    for number, access in enumerate((os.O_RDONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, access), True)
    sys.stdout = _standard_output(sys.stdout.encoding if sys.stdout else "utf-8")
    sys.stderr = sys.stderr or _standard_error()
    if hasattr(sys.stderr, "reconfigure"):
        sys.stderr.reconfigure(errors="backslashreplace")


def settle_streams() -> None:
    """Let what cannot be written go nowhere, instead of to a message of Python's last flush."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)


class _StandardOutput(io.FileIO):
    """Raises an OSError that names standard output. Python's names no file, so it could be any file's."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            raise OSError(error.errno, error.strerror, STANDARD_OUTPUT) from None


def _standard_output(encoding: str) -> TextIO:
    """Buffered whatever PYTHONUNBUFFERED says: a file itself may take a part of what is written, and say nothing."""
    buffer = io.BufferedWriter(_StandardOutput(1, "w", closefd=False))
    # An old locale must not turn a translation into a crash.
    return io.TextIOWrapper(buffer, encoding, errors="backslashreplace", line_buffering=buffer.isatty())


def _standard_error() -> TextIO:
    return open(2, "w", encoding="utf-8", closefd=False)
