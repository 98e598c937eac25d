"""Several processes of one engine, which share the segments.

Knows: `Engine`. Does not know: what runs in it.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from bench.harness.engine import Engine, Ids, Run, Search


class Workers:
    """As one `Engine`."""

    def __init__(self, module: str, precision: str, checkpoint: Path, folder: Path, number: int) -> None:
        """Start so many processes. Raises EngineError."""
        with ExitStack() as stack:
            self._engines = [stack.enter_context(Engine(module, precision, checkpoint, folder)) for _ in range(number)]
            self._stack = stack.pop_all()

    def tune(self, segments: Sequence[Ids], search: Search) -> None:
        """Let each find its best settings."""
        for engine in self._engines:
            engine.tune(segments[:: len(self._engines)], search)

    def run(self, segments: Sequence[Ids], search: Search) -> Run:
        """Each of n processes translates every n-th segment, longest first. It takes as long as the slowest."""
        number = len(self._engines)
        order = sorted(range(len(segments)), key=lambda index: -len(segments[index]))
        shares = [order[first::number] for first in range(number)]
        with ThreadPoolExecutor(number) as threads:
            runs = list(
                threads.map(
                    lambda engine, share: engine.run([segments[index] for index in share], search),
                    self._engines,
                    shares,
                )
            )
        found: list[Ids] = [[]] * len(segments)
        for share, run in zip(shares, runs, strict=True):
            for index, ids in zip(share, run.ids, strict=True):
                found[index] = ids
        return Run(max(run.seconds for run in runs), sum(run.cpu_s for run in runs), found)

    def configuration(self, search: Search) -> str:
        """The settings of one, and how many there are."""
        return f"{len(self._engines)} processes, each {self._engines[0].configuration(search)}"

    def head_size(self) -> int | None:
        """See `Engine.head_size`."""
        return self._engines[0].head_size()

    def peak_memory(self) -> int:
        """The sum over the processes; what they share counts in each."""
        return sum(engine.peak_memory() for engine in self._engines)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        self._stack.close()
