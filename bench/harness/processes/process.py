"""An engine in a process of its own: the threads, settings and memory of others do not reach it.

Knows: how to start, call and end it. Does not know: what is called.
"""

import importlib
import os
import traceback
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Self

# The warnings of torch, transformers and tokenizers are not about speed.
_QUIET = {"TRANSFORMERS_VERBOSITY": "error", "TOKENIZERS_PARALLELISM": "false", "PYTHONWARNINGS": "ignore"}


class EngineError(Exception):
    """The engine failed; the message is its own."""


class Server:
    """What runs in the engine's process: a module of `bench.peers` and the model that it prepared."""

    def __init__(self, module: str) -> None:
        self._name = module
        self._model: Any = None

    def prepare(self, checkpoint: Path, folder: Path, precision: str) -> None:
        self._peer = importlib.import_module(f"bench.peers.{self._name}")
        self._model = self._peer.prepare(checkpoint, folder, precision)

    def peak_memory(self) -> int:
        # Not getrusage, which counts what the process that started this one had resident at that moment.
        status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
        return int(status["VmHWM"].split()[0]) * 1024


class PeerProcess:
    """The engine's process as its parent sees it. Subclasses name the `server` that runs in it."""

    server: type[Server]

    def __init__(
        self, module: str, precision: str, checkpoint: Path, folder: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        """Start the process and prepare the model; `folder` is where it keeps what it converts the checkpoint to.

        `environment`: variables for this process alone. Raises EngineError.
        """
        context = get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, self.server, module))
        with _environment({**_QUIET, **(environment or {})}):
            self._process.start()
        theirs.close()
        try:
            self.ask("prepare", checkpoint, folder, precision)
        except BaseException:
            self.close()
            raise

    def ask(self, verb: str, *arguments: Any) -> Any:
        """Call the server's method of that name and return its result. Raises EngineError with the traceback there."""
        try:
            self._pipe.send((verb, arguments))
            ok, answer = self._pipe.recv()
        except (EOFError, BrokenPipeError) as error:
            self._process.join(10)
            raise EngineError(f"the process of the engine ended with exit code {self._process.exitcode}") from error
        if not ok:
            raise EngineError(answer)
        return answer

    def peak_memory(self) -> int:
        """The most bytes that its process had resident."""
        return int(self.ask("peak_memory"))

    def close(self) -> None:
        self._pipe.close()
        self._process.join(10)
        if self._process.is_alive():
            self._process.terminate()
            self._process.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()


@contextmanager
def _environment(some: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(some)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _serve(pipe: Connection, kind: type[Server], module: str) -> None:
    """Answer calls until the pipe is closed."""
    warnings.simplefilter("ignore")
    server = kind(module)
    while True:
        try:
            verb, arguments = pipe.recv()
        except EOFError:
            return
        try:
            answer = (True, getattr(server, verb)(*arguments))
        except Exception:
            answer = (False, traceback.format_exc())
        pipe.send(answer)
