"""
Normalizations as ONNX nodes.

Knows: operators. Does not know: where a norm stands.
"""

from typing import Any

from worker.graphs.causal.block import Norm
from worker.graphs.graph_builder import GraphBuilder


def normalize(net: GraphBuilder, norm: Norm, x: str, scale: str, bias: str | None, name: str, epsilon: float) -> str:
    """Normalize the last axis of `x`; `bias` is of a layer norm alone."""
    how: dict[str, Any] = {"name": name, "axis": -1, "epsilon": epsilon, "stash_type": 1}
    if norm is Norm.RMS:
        assert bias is None, name
        return net.op("SimplifiedLayerNormalization", x, scale, **how)
    return net.op("LayerNormalization", x, scale, *([] if bias is None else [bias]), **how)
