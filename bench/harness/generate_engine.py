"""A generating engine in a process of its own.

Knows: the functions of a module in `bench.peers`, and a clock. Does not know: how they are implemented.

A module has
    prepare(checkpoint, folder, precision) -> model     `folder` is shared by all, and kept between runs
    tune(model, prompts, new_tokens)                    finds its best settings for such prompts
    generate(model, prompts, new_tokens) -> ids         greedy; no id ends a continuation
    configuration(model) -> str                         its settings, versions included
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from bench.harness.processes.process import PeerProcess, Server

Ids = list[int]


@dataclass(frozen=True, slots=True)
class Run:
    """One run over some prompts."""

    seconds: float
    cpu_s: float  # of all its threads
    ids: list[Ids]  # what each prompt was continued with, in the order of the prompts

    @property
    def num_tokens(self) -> int:
        """Tokens generated."""
        return sum(map(len, self.ids))

    @property
    def rate(self) -> float:
        """Tokens a second; reading the prompts counts as time."""
        return self.num_tokens / self.seconds

    @property
    def cpu_rate(self) -> float:
        """Tokens a second of processor time."""
        return self.num_tokens / self.cpu_s


class _GenerationServer(Server):
    """Calls the functions of the peer."""

    def tune(self, prompts: list[Ids], new_tokens: int) -> None:
        self._peer.tune(self._model, prompts, new_tokens)

    def generate(self, prompts: list[Ids], new_tokens: int) -> Run:
        started, cpu_started = time.perf_counter(), time.process_time()
        ids = self._peer.generate(self._model, prompts, new_tokens)
        return Run(time.perf_counter() - started, time.process_time() - cpu_started, ids)

    def configuration(self) -> str:
        return str(self._peer.configuration(self._model))


class GenerateEngine(PeerProcess):
    """A module of `bench.peers` that generates, ready to run."""

    server = _GenerationServer

    def tune(self, prompts: Sequence[Ids], new_tokens: int) -> None:
        """Let the engine find its best settings for such prompts."""
        self.ask("tune", list(prompts), new_tokens)

    def generate(self, prompts: Sequence[Ids], new_tokens: int) -> Run:
        """Only the engine's own time counts, not sending the ids to its process and back."""
        run: Run = self.ask("generate", list(prompts), new_tokens)
        return run

    def configuration(self) -> str:
        """The engine's settings in words."""
        return str(self.ask("configuration"))
