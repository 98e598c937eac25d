"""A translation engine in a process of its own.

Knows: the verbs of a module in `bench.peers`, and a clock. Does not know: what is behind them.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from bench.process import PeerProcess, Server

Ids = list[int]


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


class _TranslationServer(Server):
    """`tune` and `head_size` a peer may lack."""

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
        """Let it find its best configuration for such segments, if it has any to find."""
        self.ask("tune", list(segments), search)

    def run(self, segments: Sequence[Ids], search: Search) -> Run:
        """Translate; only the engine's own time counts, not the way of the ids to it and back."""
        run: Run = self.ask("run", list(segments), search)
        return run

    def configuration(self, search: Search) -> str:
        """How it runs, in words."""
        return str(self.ask("configuration", search))

    def head_size(self) -> int | None:
        """The tokens that its head gives scores to, where they are not all."""
        size: int | None = self.ask("head_size")
        return size
