"""
The interface of a model family for `inspect`, which `seq2seq.py` and `causal.py` implement, and fields of both.

Each method reads one source and returns fields of `ModelDescription`, by name. It raises ModelError if the source is
broken; `inspect` then goes on with the next source.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from jobs.errors import ModelError
from worker.models.layout.causal_layout import CausalPast
from worker.models.layout.graph_signature import GraphSignature
from worker.models.layout.seq2seq_layout import CacheShape
from worker.models.manifest import Manifest
from worker.models.model_kind import ModelKind

Fields = Mapping[str, Any]  # of ModelDescription
Graphs = Mapping[str, GraphSignature]
_DTYPES = {"tensor(float)": "float32", "tensor(float16)": "float16", "tensor(int8)": "int8"}


class InspectedFamily(Protocol):
    """The part of `inspect` that depends on the model family."""

    @property
    def kind(self) -> ModelKind: ...
    @property
    def conclusions(self) -> Mapping[str, str]:
        """Layout -> a clause that describes the graphs and how they run."""

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


def cache_fields(cache: CacheShape | CausalPast | None) -> dict[str, Any]:
    """The fields of an export; empty if its graphs have no cache."""
    if cache is None:
        return {}
    return {
        "num_layers": cache.num_layers,
        "num_heads": cache.num_heads,
        "head_size": cache.head_size,
        "cache_dtype": str(cache.dtype),
    }


def native_cache_dtype(graph: GraphSignature) -> str:
    """The type of the keys in the native graph that takes a past. Raises ModelError if the graph takes none."""
    past = graph.inputs.get("past.0.key")
    if past is None:
        raise ModelError(f"{graph.file} lacks the input past.0.key: add the model again")
    return _DTYPES.get(past.type, past.type)
