"""
Cross-attention with a mask, for graphs whose sources are padded in memory.

The rows of a source are queries of one sentence, so one graph takes any number of beams, and of tokens of each.
"""

from typing import Any

import numpy as np

from worker.graphs.graph_builder import CONTRIB, GraphBuilder, Shape
from worker.graphs.seq2seq.network import AttentionHeads
from worker.graphs.seq2seq.quantized_kv import PARTS, dequantize_cross, kv_dtype


class MaskedCrossAttention:
    """The cross-attention of all layers of one graph, and the inputs that it needs.

    source_mask (B, S): 1 token, 0 padding; cross.L.key and .value (B, N, S, H), finite everywhere
    """

    def __init__(self, net: GraphBuilder, heads: AttentionHeads, dtype: np.dtype[Any]) -> None:
        self._net = net
        self._heads = heads
        self._shape: Shape = ["B", heads.number, "S", heads.size]
        self._dtype = dtype
        net.input("source_mask", np.int32, ["B", "S"])
        num_sources = net.op("Shape", "source_mask", name="source_mask.shape", start=0, end=1)
        axes = net.constant("any_and_width", [-1, heads.width])
        self._by_source = net.op("Concat", num_sources, axes, name="by_source", axis=0)  # (B, -1, D)

    def attend(self, q: str, layer: int, cached: int) -> str:
        """Queries (M, D), grouped by source -> (B, M / B, D). `cached`: the number of the layer among those that the
        graph has."""
        net = self._net
        q = net.op("Reshape", q, self._by_source, name=f"{q}.by_source")
        dtype = kv_dtype(net, layer, self._dtype)
        key, value = (net.input(f"cross.{cached}.{part}", dtype, self._shape) for part in PARTS)
        if dtype != self._dtype:
            key, value = (dequantize_cross(net, x, layer, part) for x, part in zip((key, value), PARTS, strict=True))
        return net.op(
            "MultiHeadAttention", q, key, value, "", "source_mask",
            name=f"{q}.attended", domain=CONTRIB, num_heads=self._heads.number, scale=self._heads.scale,
        )  # fmt: skip
