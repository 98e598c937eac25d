"""The fields of a description that describe the KV cache: num_layers, num_heads, head_size, cache_dtype."""

from typing import Any

from jobs.errors import ModelError
from worker.models.layout.causal_layout import CausalPast
from worker.models.layout.graph_signature import GraphSignature
from worker.models.layout.seq2seq_layout import CacheShape

_DTYPES = {"tensor(float)": "float32", "tensor(float16)": "float16", "tensor(int8)": "int8"}


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
