"""A native graph as the compiled kernels run it."""

import onnx
from google.protobuf.message import DecodeError

from worker.graphs.fusion.attention import fuse_attention
from worker.graphs.fusion.graph_editor import GraphEditor
from worker.graphs.fusion.rows import fuse_rows


def fused(graph: bytes) -> bytes:
    """The serialized graph, with groups of nodes replaced by single nodes of the domain `KERNELS`. Inputs, outputs and
    nodes in half precision stay. Bytes that are no graph are returned unchanged: opening them says what is wrong."""
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
