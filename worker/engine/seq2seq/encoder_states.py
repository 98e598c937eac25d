"""
What the encoder says of a batch of sources, as graphs read it that attend to all of them with a mask.

Shapes: B sources · S longest source · L layers of the decoder · N heads · H head size.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.engine.runtime.run_context import RunContext
from worker.engine.search.logit_rules import Ids
from worker.engine.seq2seq.native_graphs import NativeSeq2SeqGraphs


def encode_sources(graphs: NativeSeq2SeqGraphs, sources: Sequence[Sequence[int]], run: RunContext) -> NDArray[Any]:
    """Sources, longest first -> the keys and values of each layer in turn (2 L, B, N, S, H), zeros behind a source's
    end. Equally long ones go through the encoder together, so nothing is padded there."""
    shape = graphs.shape
    cross = np.zeros(
        (2 * shape.num_layers, len(sources), shape.num_heads, len(sources[0]), shape.head_size), shape.dtype
    )
    start = 0
    for length, equals in groupby(sources, key=len):
        ids = np.array(list(equals), np.int64)
        with run.measure("encode", rows=len(ids), tokens=ids.size):
            found = graphs.encode(ids)  # (m, S, 2 L, N, H)
        cross[:, start : start + len(ids), :, :length] = found.transpose(2, 0, 3, 1, 4)
        start += len(ids)
    return cross


def feed_sources(cross: NDArray[Any], lengths: Ids) -> dict[str, NDArray[Any]]:
    """The inputs of `worker.graphs.masked_cross_attention`: `cross` from `encode_sources`, and the lengths of
    the sources (B,)."""
    feed: dict[str, NDArray[Any]] = {
        "source_mask": (np.arange(cross.shape[3]) < lengths[:, None]).astype(np.int32)  # (B, S)
    }
    for place, layer in enumerate(cross):
        feed[f"cross.{place // 2}.{('key', 'value')[place % 2]}"] = layer
    return feed
