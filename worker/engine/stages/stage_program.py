"""The program of a stage's process (`stage_process`): opens its stage, then answers calls until its parent ends.

Its standard input is a pipe that the parent holds open and never writes to.
"""

import contextlib
import faulthandler
import os
import pickle
import resource
import signal
import socket
import sys
import threading
from typing import Any

from jobs.text.log_lines import JSON, log_to_stderr
from worker.engine.stages.served_objects import ServedObjects
from worker.engine.stages.shared_frames import SharedFrames


def main() -> None:
    """Serve the connection and the memory whose file descriptors are the arguments after the first, how to log."""
    log_format, *given = sys.argv[1:]
    if log_format == JSON:  # else Python writes warnings to standard error by itself
        log_to_stderr("warning", log_format, "")
    faulthandler.enable(all_threads=False)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # meant for the parent, which still has calls for this process
    threading.Thread(target=_die_with_parent, daemon=True).start()
    connection, read, written = map(int, given)
    frames = SharedFrames(socket.socket(fileno=connection), written, read)
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):  # the parent has ended
        objects = _open(frames)
        while objects is not None:
            request, forgotten = frames.receive(copies=False)
            objects.forget(forgotten)
            try:
                answer: Any = objects.answer(request)
            except Exception as error:
                answer = _sendable(error)
            frames.send(answer)


def _open(frames: SharedFrames) -> ServedObjects | None:
    """Open the stage; None where that failed, and the parent knows why."""
    opener, memory_limit = frames.receive(copies=True)
    if memory_limit is not None:
        _, highest = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (memory_limit, highest))
    try:
        objects = ServedObjects(opener.open())
    except Exception as error:
        frames.send(_sendable(error))
        return None
    frames.send(None)
    return objects


def _sendable(error: Exception) -> Exception:
    """The error, or its text where it cannot be pickled: errors of onnxruntime cannot."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error.with_traceback(None)


def _die_with_parent() -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    os._exit(0)


if __name__ == "__main__":
    main()
