"""
A large table of embeddings in float32, of which rows are read from the file when they are needed.

onnxruntime would map it into memory, where a token may bring in 2 MB of the file: scoring with the sizes of
Qwen2.5-0.5B had up to 530 of its 545 MB resident, and all of them count for RLIMIT_DATA. 512 rows are read in 1.3 ms,
and take 4 s in the body.

Knows: where the table lies in the file. Does not know: what is done with its rows.
"""

import os
import weakref
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper

from jobs.errors import ModelError
from worker.graphs.causal.head import EMBEDDINGS
from worker.graphs.weights import read_graph

IDS, EMBEDDED = "ids", "embedded"  # inputs: the ids (M,), or instead of them their rows of the table (M, D)
LEAST = 1 << 26  # bytes of a table: with a smaller one there is little to save


class RowTable:
    """A table (V, D), for all lanes."""

    def __init__(self, file: Path, offset: int, shape: tuple[int, int]) -> None:
        self._file = file
        self._descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
        weakref.finalize(self, os.close, self._descriptor)
        self._offset = offset
        self._shape = shape

    def empty(self, count: int) -> NDArray[np.float32]:
        """Uninitialized memory for `count` rows: (count, D)."""
        return np.empty((count, self._shape[1]), np.float32)

    def read(self, ids: NDArray[np.int64], rows: NDArray[np.float32]) -> None:
        """Write the row of each id (M,) into `rows` (M, D). Raises ModelError for an id that has no row, and for a file
        that ends before its row."""
        for row, token_id in zip(rows, ids.tolist(), strict=True):
            offset = self._offset + token_id * row.nbytes
            if not 0 <= token_id < self._shape[0] or os.preadv(self._descriptor, [row], offset) != row.nbytes:
                raise ModelError(f"{self._file} has no row {token_id} of the table of embeddings")


def with_row_table(file: Path) -> tuple[bytes | None, RowTable | None]:
    """The graph in `file`, serialized, with rows of the embeddings as an input in place of ids, and the table of these
    rows. Both are None if the graph has no table of at least LEAST bytes in float32, or if `file` is not a graph:
    opening it then says what is wrong."""
    try:
        model = read_graph(file)
    except ModelError:
        return None, None
    graph = model.graph
    table = next((tensor for tensor in graph.initializer if tensor.name == EMBEDDINGS), None)
    gather = next((node for node in graph.node if EMBEDDINGS in node.input), None)
    if table is None or gather is None or table.data_type != TensorProto.FLOAT or 4 * np.prod(table.dims) < LEAST:
        return None, None
    location = {entry.key: entry.value for entry in table.external_data}
    if not (weights := file.parent / location["location"]).is_file():
        return None, None
    rows = RowTable(weights, int(location["offset"]), (table.dims[0], table.dims[1]))
    ids = next(graph_input for graph_input in graph.input if graph_input.name == IDS)
    graph.node.remove(gather)
    graph.initializer.remove(table)
    graph.input.remove(ids)
    graph.input.append(helper.make_tensor_value_info(EMBEDDED, TensorProto.FLOAT, ["M", table.dims[1]]))
    return model.SerializeToString(deterministic=True), rows
