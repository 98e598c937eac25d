"""
The encoder's keys and values of sources of different lengths, padded, for decoders that mask the padding.

Shapes: B sources · S longest source · L layers of the decoder · N heads · H head size.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.engine.runtime.run_context import RunContext
from worker.engine.search.logit_rules import Ids
from worker.engine.seq2seq.native.graphs import NativeSeq2SeqGraphs


def encode_padded(graphs: NativeSeq2SeqGraphs, sources: Sequence[Sequence[int]], run: RunContext) -> NDArray[Any]:
    """Sources, longest first -> key and value of each layer (2 L, B, N, S, H), zeros after a source's end.

    Sources of one length go through the encoder together, so it pads nothing; those whose states the run has kept do
    not.
    """
    shape = graphs.shape
    cross: NDArray[Any] = np.zeros(
        (2 * shape.num_layers, len(sources), shape.num_heads, len(sources[0]), shape.head_size), shape.dtype
    )
    unknown: list[int] = []
    for row, source in enumerate(sources):
        kept = None if run.first_readings is None else run.first_readings.get(graphs, source)
        if kept is None:
            unknown.append(row)
        else:
            cross[:, row, :, : len(source)] = kept.transpose(1, 2, 0, 3)
    for length, same_length in groupby(unknown, key=lambda row: len(sources[row])):
        rows = list(same_length)
        ids = np.array([sources[row] for row in rows], np.int64)
        with run.measure("encode", rows=len(ids), tokens=ids.size):
            encoded = graphs.encode(ids)  # (m, S, 2 L, N, H)
        cross[:, rows, :, :length] = encoded.transpose(2, 0, 3, 1, 4)
    return cross


def cross_attention_feed(cross: NDArray[Any], lengths: Ids) -> dict[str, NDArray[Any]]:
    """The inputs of `worker.graphs.seq2seq.block`: `cross` from `encode_padded`, and the lengths of
    the sources (B,)."""
    feed: dict[str, NDArray[Any]] = {
        "source_mask": (np.arange(cross.shape[3]) < lengths[:, None]).astype(np.int32)  # (B, S)
    }
    for index, array in enumerate(cross):
        feed[f"cross.{index // 2}.{('key', 'value')[index % 2]}"] = array
    return feed
