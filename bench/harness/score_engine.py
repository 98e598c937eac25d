"""A scoring engine in a process of its own.

Knows: the functions of a module in `bench.peers`, and a clock. Does not know: how they are implemented.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from bench.harness.processes.process import PeerProcess, Server

Ids = list[int]


@dataclass(frozen=True, slots=True)
class Run:
    """One run over some sequences."""

    seconds: float
    cpu_s: float  # of all its threads
    num_tokens: int  # of the sequences; padding does not count
    log_probs: list[list[float]]  # of every token but the first of each sequence

    @property
    def rate(self) -> float:
        """Tokens a second."""
        return self.num_tokens / self.seconds

    @property
    def cpu_rate(self) -> float:
        """Tokens a second of processor time."""
        return self.num_tokens / self.cpu_s


class _ScoreServer(Server):
    """Calls the functions of the peer; `tune` is optional."""

    def tune(self, sequences: list[Ids]) -> None:
        if hasattr(self._peer, "tune"):
            self._peer.tune(self._model, sequences)

    def score(self, sequences: list[Ids]) -> Run:
        started, cpu_started = time.perf_counter(), time.process_time()
        log_probs = self._peer.score(self._model, sequences)
        seconds, cpu_s = time.perf_counter() - started, time.process_time() - cpu_started
        return Run(seconds, cpu_s, sum(map(len, sequences)), log_probs)

    def configuration(self) -> str:
        return str(self._peer.configuration(self._model))


class ScoreEngine(PeerProcess):
    """A module of `bench.peers` that scores, ready to run."""

    server = _ScoreServer

    def tune(self, sequences: Sequence[Ids]) -> None:
        """Let the engine find its best settings for such sequences, if it has any to choose."""
        self.ask("tune", list(sequences))

    def score(self, sequences: Sequence[Ids]) -> Run:
        """Only the engine's own time counts, not sending the ids to its process and back."""
        run: Run = self.ask("score", list(sequences))
        return run

    def configuration(self) -> str:
        """The engine's settings in words."""
        return str(self.ask("configuration"))
