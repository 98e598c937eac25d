"""A native graph as the compiled kernels run it."""

import onnx
from google.protobuf.message import DecodeError

from worker.graphs.fusion.attention import fuse_attention
from worker.graphs.fusion.graph_editor import GraphEditor
from worker.graphs.fusion.rows import fuse_rows


def fused(graph: bytes) -> bytes:
    """The graph with nodes of the domain `KERNELS` wherever one can stand for several. Inputs and outputs stay; what is
    in half precision stays too. What is no graph comes back as it is: opening it says what is wrong."""
    try:
        model = onnx.load_from_string(graph)
    except DecodeError:
        return graph
    editor = GraphEditor(model)
    fuse_attention(editor)
    fuse_rows(editor)
    editor.write()
    changed: bytes = model.SerializeToString(deterministic=True)
    return changed
