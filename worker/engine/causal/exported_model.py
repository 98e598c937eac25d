"""
A causal language model as others exported it, open and ready. Shared by all lanes of a process.

Knows: which files there are, what the graph takes and is able to do. Does not know: how sequences go through it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np

from worker.engine.causal.capabilities import Capabilities, probe_capabilities
from worker.engine.causal.exported_graph import ExportedCausalGraph
from worker.engine.causal.exported_reader import ExportedReader
from worker.engine.runtime.device import CPU_PROVIDER, Provider
from worker.engine.runtime.session import open_session
from worker.models.departures.departures import Departures, find_departures
from worker.models.departures.graph_content import GraphContent
from worker.models.layout.causal_config import CausalConfig
from worker.models.layout.causal_layout import CausalLayout, find_causal_graph, read_causal_layout
from worker.models.layout.graph_signature import GraphSignature
from worker.models.manifest import MANIFEST, Manifest

_UNNAMED_LIMIT = 2048  # positions, where no configuration names a limit


@dataclass(frozen=True, slots=True)
class ExportedCausal:
    """Nothing here changes after `open`."""

    graph: ExportedCausalGraph
    capabilities: Capabilities
    max_positions: int
    departures: Departures  # from what the configuration asks for
    num_heads: int  # of queries, as far as the configuration says; for an estimate of memory alone

    @classmethod
    def open(cls, folder: Path, *, threads: int = 1, providers: Sequence[Provider] = (CPU_PROVIDER,)) -> Self:
        """Open the graph in `folder`; raise ModelError now, not at the first document.

        A graph that contradicts its configuration is refused, unless it was added with what it contradicts accepted.
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
            graph=graph,
            capabilities=probe_capabilities(graph, max_positions),
            max_positions=max_positions,
            departures=departures,
            num_heads=config.num_attention_heads or key_heads,
        )

    @property
    def layout(self) -> CausalLayout:
        """What the graph says of itself."""
        return self.graph.layout

    @property
    def vocab_size(self) -> int:
        """V of the logits."""
        return self.layout.vocab_size

    def computes_in_float32(self) -> bool:
        """Whether logits and cache are float32 and no product is quantized; reads the graph's file."""
        layout = self.layout
        dtypes = {layout.logits_dtype, layout.cache.dtype if layout.cache else layout.logits_dtype}
        return dtypes == {np.dtype(np.float32)} and not GraphContent.read(self.graph.file).is_quantized

    def new_reader(self, *, is_packed: bool = True) -> ExportedReader:
        """The buffers of one lane. `is_packed=False`: one sequence after another, and no prefix is shared."""
        return ExportedReader(self.graph, self.capabilities, self.num_heads, is_packed=is_packed)

    def new_whole_reader(self) -> ExportedReader:
        """Reads each sequence alone and in one call, however much memory that takes."""
        return ExportedReader(self.graph, self.capabilities, self.num_heads, is_packed=False, is_cut=False)
