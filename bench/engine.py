"""An engine in a process of its own: no other's threads, settings or memory reach it.

Knows: the verbs of a module in `bench.peers`, and a clock. Does not know: what is behind them.
"""

import importlib
import os
import time
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Self

Ids = list[int]

# Of torch's family and of the tokenizers: what they warn of is not about speed.
_QUIET = {"TRANSFORMERS_VERBOSITY": "error", "TOKENIZERS_PARALLELISM": "false", "PYTHONWARNINGS": "ignore"}


class EngineError(Exception):
    """A peer could not do as asked; the message is its own."""


@dataclass(frozen=True, slots=True)
class Search:
    """What every engine is asked to do with the segments."""

    beams: int
    forced_length: int | None  # tokens of every translation, with the end suppressed; None: as the model ends


@dataclass(frozen=True, slots=True)
class Run:
    """One run over some segments."""

    seconds: float
    cpu_s: float  # of all its threads: what counts where others use the machine as well
    ids: list[Ids]  # in the order of the segments, without start and end

    @property
    def rate(self) -> float:
        """Target tokens a second."""
        return sum(map(len, self.ids)) / self.seconds

    @property
    def cpu_rate(self) -> float:
        """Target tokens a second of processor time."""
        return sum(map(len, self.ids)) / self.cpu_s


class Engine:
    """A module of `bench.peers`, ready to run."""

    def __init__(
        self, module: str, precision: str, checkpoint: Path, folder: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        """Start it and prepare the model; `folder` is where it may keep what it makes of the checkpoint.

        `environment` is what only this process is told. Raises EngineError.
        """
        context = get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, module))
        with _environment({**_QUIET, **(environment or {})}):
            self._process.start()
        theirs.close()
        try:
            self._ask("prepare", checkpoint, folder, precision)
        except BaseException:
            self.close()
            raise

    def tune(self, segments: Sequence[Ids], search: Search) -> None:
        """Let it find its best configuration for such segments, if it has any to find."""
        self._ask("tune", list(segments), search)

    def run(self, segments: Sequence[Ids], search: Search) -> Run:
        """Translate; only the engine's own time counts, not the way of the ids to it and back."""
        run: Run = self._ask("run", list(segments), search)
        return run

    def configuration(self, search: Search) -> str:
        """How it runs, in words."""
        return str(self._ask("configuration", search))

    def head_size(self) -> int | None:
        """The tokens that its head gives scores to, where they are not all."""
        size: int | None = self._ask("head_size")
        return size

    def peak_memory(self) -> int:
        """Bytes that its process had resident at most."""
        return int(self._ask("peak_memory"))

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

    def _ask(self, verb: str, *arguments: Any) -> Any:
        try:
            self._pipe.send((verb, arguments))
            ok, answer = self._pipe.recv()
        except (EOFError, BrokenPipeError) as error:
            self._process.join(10)
            raise EngineError(f"the process of the engine ended with exit code {self._process.exitcode}") from error
        if not ok:
            raise EngineError(answer)
        return answer


@contextmanager
def _environment(some: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(some)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _serve(pipe: Connection, module: str) -> None:
    """The other side: answer until the pipe is closed."""
    warnings.simplefilter("ignore")
    server = _Server(module)
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


class _Server:
    """A module of `bench.peers` and the model that it prepared. `tune` and `head_size` it may lack."""

    def __init__(self, module: str) -> None:
        self._name = module
        self._model: Any = None

    def prepare(self, checkpoint: Path, folder: Path, precision: str) -> None:
        self._peer = importlib.import_module(f"bench.peers.{self._name}")
        self._model = self._peer.prepare(checkpoint, folder, precision)

    def tune(self, segments: list[Ids], search: Search) -> None:
        if hasattr(self._peer, "tune"):
            self._peer.tune(self._model, segments, beams=search.beams, forced_length=search.forced_length)

    def run(self, segments: list[Ids], search: Search) -> Run:
        started, cpu_started = time.perf_counter(), time.process_time()
        ids = self._peer.run(self._model, segments, beams=search.beams, forced_length=search.forced_length)
        return Run(time.perf_counter() - started, time.process_time() - cpu_started, ids)

    def configuration(self, search: Search) -> str:
        return str(self._peer.configuration(self._model, beams=search.beams))

    def head_size(self) -> int | None:
        return self._peer.head_size(self._model) if hasattr(self._peer, "head_size") else None

    def peak_memory(self) -> int:
        # Not getrusage, which counts what the process that started this one had resident at that moment.
        status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
        return int(status["VmHWM"].split()[0]) * 1024
