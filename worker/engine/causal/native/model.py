"""
A causal language model with native graphs, and the reader that a lane gets.

Knows: the files of a model folder. Does not know: sessions, which sequences are read together.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from jobs.errors import ModelError
from jobs.tasks.shared_options import CachePolicy
from worker.engine.causal.continuous_generation import ContinuousGenerator
from worker.engine.causal.native.generation_rows import CachedRows, UncachedRows
from worker.engine.causal.native.graphs import NativeCausalGraphs
from worker.engine.causal.native.reader import PackedReader, WholeReader
from worker.engine.runtime.device import CPU_PROVIDER, Provider
from worker.engine.runtime.native_session import native_precision
from worker.engine.search.continuation_rules import ContinuationRules, rules_in
from worker.graphs.architectures import CAUSAL_ARCHITECTURES
from worker.graphs.causal.families import read_sizes
from worker.graphs.precision import Precision
from worker.models.departures.departures import Departures
from worker.models.json_file import read_json
from worker.models.manifest import Manifest

FAMILIES = tuple(CAUSAL_ARCHITECTURES.values())


@dataclass(frozen=True, slots=True)
class NativeCausal:
    """A causal language model with native graphs, shared by all lanes of a process and never changed after `open`."""

    graphs: NativeCausalGraphs
    folder: Path
    max_positions: int
    vocab_size: int  # rows of the embedding, of which a tokenizer may use fewer

    @classmethod
    def open(cls, folder: Path, *, threads: int = 1, providers: Sequence[Provider] = (CPU_PROVIDER,)) -> Self:
        """Open everything that `folder` holds; raise ModelError now, not at the first document."""
        manifest, config = Manifest.read(folder), read_json(folder / "config.json")
        if not manifest.is_native or manifest.architecture not in FAMILIES:
            raise ModelError(
                f"{folder} holds a model of the architecture {manifest.architecture} in the layout {manifest.layout}, "
                f"which scores no text; known are {', '.join(FAMILIES)} in kv"
            )
        precision = native_precision(folder, manifest, providers)
        sizes = read_sizes(config)
        if sizes.family != manifest.architecture:
            raise ModelError(
                f"{folder / 'config.json'} is of the family {sizes.family}, and kvjobs.json of "
                f"{manifest.architecture}: the files belong to different models"
            )
        graphs = NativeCausalGraphs.open(folder, sizes, precision, threads, providers, manifest.split)
        return cls(graphs, folder, sizes.max_positions, sizes.vocab_size)

    def computes_in_float32(self) -> bool:
        """Whether weights and products are float32."""
        return self.graphs.precision is Precision.FP32

    @property
    def is_running(self) -> bool:
        return self.graphs.is_running

    @property
    def departures(self) -> Departures:
        """Always None: native graphs are built from the configuration."""
        return Departures()

    @property
    def continuation_rules(self) -> ContinuationRules:
        return rules_in(self.folder, self.vocab_size)

    def new_generator(self, policy: CachePolicy = CachePolicy()) -> ContinuousGenerator:  # noqa: B008 - frozen
        """One lane's generator. With the cache off, each step reads the whole prefix of every row."""
        rows = UncachedRows if policy.mode == "off" else CachedRows
        return ContinuousGenerator(lambda: rows(self.graphs), self.max_positions)

    def new_reader(self, *, is_packed: bool = True) -> PackedReader | WholeReader:
        """One lane's reader. `is_packed=False`: one sequence per call, without a cache, in memory that grows with its
        length."""
        return PackedReader(self.graphs) if is_packed else self.new_whole_reader()

    def new_whole_reader(self) -> WholeReader:
        """One lane's reader that reads each sequence alone, in one call and without a cache."""
        return WholeReader(self.graphs)
