"""A translation engine in a process of its own.

Knows: the functions of a module in `bench.peers`, and a clock. Does not know: how they are implemented.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from bench.harness.processes.process import PeerProcess, Server

Ids = list[int]


@dataclass(frozen=True, slots=True)
class Search:
    """The search that every engine runs on the segments."""

    beams: int
    forced_length: int | None  # tokens of every translation, end-of-sentence suppressed; None: until the model ends


@dataclass(frozen=True, slots=True)
class Run:
    """One run over some segments."""

    seconds: float
    cpu_s: float  # of all its threads: for machines that others use as well
    ids: list[Ids]  # in the order of the segments, without start and end

    @property
    def rate(self) -> float:
        """Target tokens a second."""
        return sum(map(len, self.ids)) / self.seconds

    @property
    def cpu_rate(self) -> float:
        """Target tokens a second of processor time."""
        return sum(map(len, self.ids)) / self.cpu_s


class _TranslationServer(Server):
    """Calls the functions of the peer; `tune` and `head_size` are optional."""

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


class Engine(PeerProcess):
    """A module of `bench.peers` that translates, ready to run."""

    server = _TranslationServer

    def tune(self, segments: Sequence[Ids], search: Search) -> None:
        """Let the engine find its best settings for such segments, if it has any to choose."""
        self.ask("tune", list(segments), search)

    def run(self, segments: Sequence[Ids], search: Search) -> Run:
        """Translate. Only the engine's own time counts, not sending the ids to its process and back."""
        run: Run = self.ask("run", list(segments), search)
        return run

    def configuration(self, search: Search) -> str:
        """The engine's settings in words."""
        return str(self.ask("configuration", search))

    def head_size(self) -> int | None:
        """The number of tokens that the head scores; None: all."""
        size: int | None = self.ask("head_size")
        return size
