"""
The interface of a model family for `inspect`. `seq2seq.py` and `causal.py` implement it.

Each method reads one source and returns fields of `ModelDescription`, by name. It raises ModelError if the source is
broken; `inspect` then goes on with the next source.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from worker.models.layout.graph_signature import GraphSignature
from worker.models.manifest import Manifest
from worker.models.model_kind import ModelKind

Fields = Mapping[str, Any]  # of ModelDescription
Graphs = Mapping[str, GraphSignature]


class InspectedFamily(Protocol):
    """The part of `inspect` that depends on the model family."""

    @property
    def kind(self) -> ModelKind: ...
    @property
    def conclusions(self) -> Mapping[str, str]:
        """By layout, a clause that says what the graphs are and how they run."""

    def find_graphs(self, folder: Path, native: Manifest | None) -> Mapping[str, Path]:
        """The graphs that the layout uses, by name; `native`: the manifest of native graphs, None for an export."""

    def read_config(self, folder: Path, manifest: Manifest | None) -> Fields:
        """Fields from the configuration and the manifest alone."""

    def read_graphs(self, folder: Path, graphs: Graphs, *, is_native: bool) -> Fields:
        """`layout`, and the sizes of the network, from graphs and configuration together."""

    def read_tokenizer(self, folder: Path, sizes: Fields) -> Fields:
        """Fields from the tokenizer. `sizes`: the fields of `read_graphs`; empty where that failed."""

    def open_model(self, folder: Path) -> Fields:
        """Fields, and problems, that only show when the model is opened as a worker opens it."""
