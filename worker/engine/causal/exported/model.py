"""
A causal language model with an exported graph, and the reader that a lane gets.

Knows: the files of a model folder, what the graph is capable of. Does not know: which sequences are read together.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

import numpy as np

from jobs.errors import SpecError
from jobs.tasks.shared_options import CachePolicy
from worker.engine.causal.continuous_generation import ContinuousGenerator
from worker.engine.causal.exported.capabilities import Capabilities, probe_capabilities
from worker.engine.causal.exported.generation_rows import ExportedRows, WholeRows
from worker.engine.causal.exported.graph import ExportedCausalGraph
from worker.engine.causal.exported.reader import ExportedReader
from worker.engine.runtime.device import CPU_PROVIDER, Provider
from worker.engine.runtime.session import open_session
from worker.engine.search.continuation_rules import ContinuationRules, rules_in
from worker.models.departures.departures import Departures, find_departures
from worker.models.departures.graph_content import GraphContent
from worker.models.layout.causal_config import CausalConfig
from worker.models.layout.causal_layout import CausalLayout, find_causal_graph, read_causal_layout
from worker.models.layout.graph_signature import GraphSignature
from worker.models.manifest import MANIFEST, Manifest

_UNNAMED_LIMIT = 2048  # positions, where the configuration names no limit


@dataclass(frozen=True, slots=True)
class ExportedCausal:
    """A causal language model with an exported graph, shared by all lanes of a process and never changed after
    `open`."""

    folder: Path
    graph: ExportedCausalGraph
    capabilities: Capabilities
    max_positions: int
    departures: Departures  # of the graph from the configuration
    num_heads: int  # of queries, as far as the configuration says; only to estimate memory

    is_running: ClassVar[bool] = True  # no process of its own can end

    @classmethod
    def open(cls, folder: Path, *, threads: int = 1, providers: Sequence[Provider] = (CPU_PROVIDER,)) -> Self:
        """Open the graph in `folder`; raise ModelError now, not at the first document.

        Refuses a graph that contradicts its configuration, unless the model was added with --accept-departures.
        """
        file = find_causal_graph(folder)
        config = CausalConfig.read(folder)
        session = open_session(file, threads=threads, providers=providers)
        layout = read_causal_layout(GraphSignature.of(file, session), config)
        departures = find_departures(file, config)
        if not ((folder / MANIFEST).is_file() and Manifest.read(folder).accepts_departures):
            departures.refuse(file, config)
        graph = ExportedCausalGraph(file, session, layout)
        max_positions = config.max_position_embeddings or _UNNAMED_LIMIT
        if departures.limit:
            max_positions = min(max_positions, departures.limit.positions)
        key_heads = layout.cache.num_heads if layout.cache else 1
        return cls(
            folder=folder,
            graph=graph,
            capabilities=probe_capabilities(graph, max_positions),
            max_positions=max_positions,
            departures=departures,
            num_heads=config.num_attention_heads or key_heads,
        )

    @property
    def layout(self) -> CausalLayout:
        """The inputs and outputs of the graph."""
        return self.graph.layout

    @property
    def vocab_size(self) -> int:
        """V: how many ids the graph gives logits for."""
        return self.layout.vocab_size

    def computes_in_float32(self) -> bool:
        """Whether logits and cache are float32 and no product is quantized; reads the graph's file."""
        layout = self.layout
        dtypes = {layout.logits_dtype, layout.cache.dtype if layout.cache else layout.logits_dtype}
        return dtypes == {np.dtype(np.float32)} and not GraphContent.read(self.graph.file).is_quantized

    @property
    def continuation_rules(self) -> ContinuationRules:
        return rules_in(self.folder, self.vocab_size)

    def new_generator(self, policy: CachePolicy = CachePolicy()) -> ContinuousGenerator:  # noqa: B008 - frozen
        """One lane's generator. Raises SpecError where `policy` wants a cache that the graph does not have, or does not
        use correctly."""
        has_cache = self.layout.cache is not None and self.capabilities.extends
        if policy.mode == "on" and not has_cache:
            raise SpecError(f"cache is on, but {self.graph.file} cannot use one: choose --cache auto or off")
        rows = ExportedRows if has_cache and policy.mode != "off" else WholeRows
        return ContinuousGenerator(lambda: rows(self.graph, self.capabilities), self.max_positions)

    def new_reader(self, *, is_packed: bool = True) -> ExportedReader:
        """One lane's reader. `is_packed=False`: one sequence after another, without shared prefixes."""
        return ExportedReader(self.graph, self.capabilities, self.num_heads, is_packed=is_packed)

    def new_whole_reader(self) -> ExportedReader:
        """One lane's reader that reads each sequence alone, in one call, however much memory that takes."""
        return ExportedReader(self.graph, self.capabilities, self.num_heads, is_packed=False, in_pieces=False)
