"""
Attention in one node, with the nodes around it that only give its operands another shape.

    GroupQueryAttention of one token a row, its cache bound by the caller   ->   AttendToCache, AttendToInt8Cache
    MultiHeadAttention of all tokens of sentences of one length             ->   AttendWithin

Shapes: R rows · B sources, R / beams · N heads · H head size · C capacity · D width, N x H.
"""

import numpy as np
from onnx import NodeProto, TensorProto, helper

from worker.graphs.fusion.graph_editor import GraphEditor, attributes
from worker.kernels.library import KERNELS

# The attributes of GroupQueryAttention that the kernel supports; a node with any other stays.
_KNOWN = {"num_heads", "kv_num_heads", "scale", "k_quant_type", "v_quant_type", "kv_cache_bit_width"}
# Its inputs.
_QUERY, _KEY, _PAST_KEY, _PAST_VALUE, _LAST, _BIAS, _KEY_SCALE, _VALUE_SCALE = 0, 1, 3, 4, 5, 10, 12, 13
_UNKNOWN = (7, 8, 9, 11)  # rotations, positions, sinks
_INPUTS = 14
_VECTOR, _LARGEST_HEAD = 16, 256  # the size of a head is a multiple of 16, at most 256 (kernels.h)
_OPERATORS: dict[int, str] = {TensorProto.FLOAT: "AttendToCache", TensorProto.INT8: "AttendToInt8Cache"}


def fuse_attention(graph: GraphEditor) -> None:
    """Replace each attention node that a kernel can compute, with the nodes around it."""
    for node in graph.nodes:
        if node.op_type == "GroupQueryAttention":
            _replace_cached(graph, node)
        elif node.op_type == "MultiHeadAttention":
            _replace_whole(graph, node)


def _replace_cached(graph: GraphEditor, node: NodeProto) -> None:
    """Attention to a cache that is an input: `beams` rows of a source share its keys and values."""
    settings = attributes(node)
    inputs = [*node.input, *[""] * (_INPUTS - len(node.input))]
    past = graph.input(inputs[_PAST_KEY])
    if past is None or not settings.keys() <= _KNOWN or "scale" not in settings or any(inputs[i] for i in _UNKNOWN):
        return
    operator = _OPERATORS.get(past.dtype)
    heads, head_size = settings["kv_num_heads"], past.shape[3]
    beams, rest = divmod(settings["num_heads"], heads)
    appends = not inputs[_KEY]
    if operator is None or rest or (appends and beams > 1) or not _fits(head_size):
        return
    queries = _appended_rows(graph, inputs[_QUERY]) if appends else _query_rows(graph, inputs[_QUERY], beams)
    after = _rows_again(graph, node.output[0], beams)
    if queries is None or after is None:
        return
    fused = helper.make_node(
        operator,
        [queries, *(inputs[i] for i in (_PAST_KEY, _PAST_VALUE, _LAST, _BIAS, _KEY_SCALE, _VALUE_SCALE))],
        [after[-1].output[0], *node.output[1:]],
        name=node.name, domain=KERNELS,
        heads=heads, beams=beams, appends=int(appends), scale=settings["scale"],
    )  # fmt: skip
    graph.replace([node, *after], fused)


def _fits(head_size: int | str) -> bool:
    return isinstance(head_size, int) and head_size % _VECTOR == 0 and head_size <= _LARGEST_HEAD


def _appended_rows(graph: GraphEditor, packed: str) -> str | None:
    """Queries, keys and values (R, 3 D) of a tensor (R, 1, 3 D)."""
    maker = graph.maker(packed, "Unsqueeze")
    axes = None if maker is None else graph.value(maker.input[1])
    return maker.input[0] if maker is not None and axes is not None and np.array_equal(axes, [1]) else None


def _query_rows(graph: GraphEditor, q: str, beams: int) -> str | None:
    """Queries (R, D) of a tensor (B, 1, beams x D): by head first, then by beam."""
    for kind in ("Reshape",) if beams == 1 else ("Reshape", "Transpose", "Reshape"):
        maker = graph.maker(q, kind)
        if maker is None:
            return None
        q = maker.input[0]
    return q


def _rows_again(graph: GraphEditor, attended: str, beams: int) -> list[NodeProto] | None:
    """The nodes that reshape the result to (R, D); None if the readers are others."""
    readers: list[NodeProto] = []
    for kind in ("Reshape",) if beams == 1 else ("Reshape", "Transpose", "Reshape"):
        reader = graph.only_reader(attended, kind)
        if reader is None:
            return None
        readers.append(reader)
        attended = reader.output[0]
    return readers


def _replace_whole(graph: GraphEditor, node: NodeProto) -> None:
    """Attention of all tokens of a sentence to all, without mask or bias; the shape (B, S, -1) is a tensor."""
    settings = attributes(node)
    if settings.keys() != {"num_heads", "scale"} or len(node.input) != 3:
        return
    reshapes = [graph.maker(name, "Reshape") for name in node.input]
    after = graph.only_reader(node.output[0], "Reshape")
    split = None if reshapes[0] is None else graph.maker(reshapes[0].input[0], "Split")
    if split is None or after is None or [reshape and reshape.input[0] for reshape in reshapes] != list(split.output):
        return
    if graph.dtype_of(split.input[0]) != TensorProto.FLOAT:
        return
    widths = graph.value(split.input[1])
    if widths is None or len(set(widths.tolist())) != 1 or not _fits(int(widths[0]) // settings["num_heads"]):
        return
    assert reshapes[0] is not None
    fused = helper.make_node(
        "AttendWithin", [split.input[0], reshapes[0].input[1]], [after.output[0]],
        name=node.name, domain=KERNELS, heads=settings["num_heads"], scale=settings["scale"],
    )  # fmt: skip
    graph.replace([node, after], fused)
