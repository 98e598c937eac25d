"""
What stands between two products, in one node: FinishRows in place of the scaling of an int8 product, its bias, an
activation or the residual connection, the norm, and the quantization for the next product.

    product -> x factors -> + bias -> activation, or + residual -> norm -> quantized, and the scales of the rows

Each part may be missing; the sums before the norm are an output where something else reads them.

Shapes: M rows · N their size.
"""

from dataclasses import dataclass, field

from onnx import NodeProto, TensorProto, helper

from worker.graphs.fusion.graph_editor import GraphEditor, attributes, scalar
from worker.graphs.mixing import MIXING
from worker.kernels.library import KERNELS

# As in kernels.h.
_ACTIVATIONS = {"Relu": 1, "QuickGelu": 2}
_NORMS = {"LayerNormalization": 1, "SimplifiedLayerNormalization": 2}
_SCALES = 3  # of the outputs of FinishRows
_INT8_PRODUCT = "MatMulIntegerToFloat"


@dataclass(slots=True)
class _Chain:
    """Nodes that one node replaces; names of tensors, empty where there is none."""

    product: str  # (M, N)
    y: str  # the result so far
    nodes: list[NodeProto] = field(default_factory=list)
    factors: str = ""
    bias: str = ""
    activation: int = 0
    residual: str = ""
    sums: str = ""
    norm: int = 0
    norm_weight: str = ""
    norm_bias: str = ""
    epsilon: float = 0.0

    def take(self, node: NodeProto) -> None:
        """Add the next node."""
        self.nodes.append(node)
        self.y = node.output[0]


@dataclass(frozen=True, slots=True)
class _Quantization:
    """The nodes that quantize a tensor by rows."""

    x: str
    nodes: list[NodeProto]
    quantized: str
    scales: str
    lowest: float  # a lower bound of the tensor; 0: unknown
    is_mixed: bool  # the tensor is mixed first (`worker.kernels.mixing`)


def fuse_rows(graph: GraphEditor) -> None:
    """Replace each chain of nodes between two products that FinishRows or FinishProduct can compute."""
    quantized = _quantizations(graph)
    for node in graph.nodes:
        if node.op_type == _INT8_PRODUCT or (node.op_type == "MatMul" and _is_float(graph, node.input[1])):
            _replace(graph, node, quantized)
    # Norms without a product before them too: a stage of a split model begins with a norm, and has to compute the same
    # bits as the whole model.
    for node in graph.nodes:
        if node.op_type in _NORMS and _is_over_rows(graph, node):
            chain = _Chain(node.input[0], node.input[0])
            _take_norm(chain, node)
            _write(graph, chain, quantized.pop(chain.y, None))
    for x, quantization in quantized.items():
        _write(graph, _Chain(x, x), quantization)


def _replace(graph: GraphEditor, product: NodeProto, quantized: dict[str, _Quantization]) -> None:
    chain = _Chain(product.output[0], product.output[0])
    if (node := graph.only_reader(chain.y, "Mul")) is not None:
        if not _are_scales(graph, _other(node, chain.y)):
            return
        chain.factors = _other(node, chain.y)
        chain.take(node)
    if (node := graph.only_reader(chain.y, "Add")) is not None and _is_bias(graph, _other(node, chain.y), product):
        chain.bias = _other(node, chain.y)
        chain.take(node)
    if (node := graph.only_reader(chain.y, *_ACTIVATIONS)) is not None and _is_known(node):
        chain.activation = _ACTIVATIONS[node.op_type]
        chain.take(node)
    elif (node := graph.only_reader(chain.y, "Add")) is not None and graph.weight(_other(node, chain.y)) is None:
        chain.residual = _other(node, chain.y)
        chain.take(node)
        _take_norm_of_sums(graph, chain)
    if not chain.nodes:
        return
    quantization = quantized.pop(chain.y, None)
    if len(chain.nodes) == 1 and chain.bias and quantization is None:
        _add_bias_in_product(graph, product, chain)
    else:
        _write(graph, chain, quantization, "FinishProduct")


def _take_norm_of_sums(graph: GraphEditor, chain: _Chain) -> None:
    """The norm of the sums, which the next residual connection may read too."""
    readers = graph.readers(chain.y)
    norms = [node for node in readers if node.op_type in _NORMS and node.input[0] == chain.y]
    if len(norms) != 1 or not _is_over_rows(graph, norms[0]):
        return
    if len(readers) > 1 or graph.is_output(chain.y):
        chain.sums = chain.y
    _take_norm(chain, norms[0])


def _is_over_rows(graph: GraphEditor, norm: NodeProto) -> bool:
    """Whether a norm is in float32 over the last axis."""
    over_last = attributes(norm).get("axis", -1) == -1
    return over_last and len(norm.output) == 1 and all(_is_float(graph, name) for name in norm.input[1:])


def _take_norm(chain: _Chain, norm: NodeProto) -> None:
    chain.norm, chain.norm_weight = _NORMS[norm.op_type], norm.input[1]
    chain.norm_bias = norm.input[2] if len(norm.input) > 2 else ""
    chain.epsilon = attributes(norm).get("epsilon", 1e-5)
    chain.take(norm)


def _add_bias_in_product(graph: GraphEditor, product: NodeProto, chain: _Chain) -> None:
    """onnxruntime does so by itself where it knows that a product has two axes, which it does not behind our nodes."""
    node = helper.make_node("Gemm", [*product.input, chain.bias], [chain.y], name=product.name)
    graph.replace([product, *chain.nodes], node)


def _write(graph: GraphEditor, chain: _Chain, quantization: _Quantization | None, operator: str = "FinishRows") -> None:
    """Put one node in the place of the chain and of the quantization of its result. `operator`: FinishProduct writes
    its result into the memory of a product, which only this chain reads."""
    outputs = [chain.y if chain.nodes else "", chain.sums]  # y is memory for a row, too, where nothing else reads it
    if quantization is not None:
        outputs += [quantization.quantized, quantization.scales]
    node = helper.make_node(
        operator,
        [chain.product, chain.factors, chain.bias, chain.residual, chain.norm_weight, chain.norm_bias],
        outputs,
        name=chain.y if chain.nodes else f"{chain.y}.quantized", domain=KERNELS,
        activation=chain.activation, norm=chain.norm, epsilon=chain.epsilon,
        lowest=quantization.lowest if quantization else 0.0,
        mixed=int(quantization is not None and quantization.is_mixed),
    )  # fmt: skip
    graph.replace([*chain.nodes, *(quantization.nodes if quantization else [])], node)


def _quantizations(graph: GraphEditor) -> dict[str, _Quantization]:
    """The quantizations made by `worker.graphs.matrix_products.quantize_rows`, by the tensor that is quantized.

    Quantizations that share an array of zero points are found together or not at all, because the length of that array
    is computed from the scales of one of them.
    """
    quantizations: dict[str, _Quantization] = {}
    for expand in [node for node in graph.nodes if node.op_type == "Expand"]:
        readers = graph.readers(expand.output[0])
        made = [_quantization(graph, node) for node in readers if node.op_type == "QuantizeLinear"]
        complete = {quantization.x: quantization for quantization in made if quantization is not None}
        shape = graph.maker(expand.input[1], "Shape")
        if shape is not None and complete and len(complete) == len(readers):
            next(iter(complete.values())).nodes.extend((shape, expand))
            quantizations |= complete
    return quantizations


def _quantization(graph: GraphEditor, quantize: NodeProto) -> _Quantization | None:
    """The quantization that ends with the node `quantize`; None if `quantize_rows` did not make it."""
    x = quantize.input[0]
    scale = graph.maker(quantize.input[1], "Mul")
    largest = None if scale is None else graph.maker(scale.input[0], "Max")
    highest = None if largest is None else graph.maker(largest.input[0], "ReduceMax")
    if scale is None or largest is None or highest is None or highest.input[0] != x:
        return None
    nodes, lowest = [highest, largest, scale, quantize], 0.0
    if (depth := graph.maker(largest.input[1], "Sub")) is not None:
        least = graph.maker(depth.input[1], "ReduceMin")
        if least is None or least.input[0] != x:
            return None
        nodes += [least, depth]
    elif (bound := scalar(graph.value(largest.input[1]))) is not None:
        lowest = -bound
    else:
        return None
    columns = [node for node in graph.readers(scale.output[0]) if node is not quantize and node.op_type != "Shape"]
    if len(columns) != 1 or columns[0].op_type != "Unsqueeze":
        return None
    mixing = _mixing(graph, x)
    return _Quantization(
        mixing[0].input[0] if mixing else x,
        [*mixing, *nodes, columns[0]], quantize.output[0], columns[0].output[0], lowest, bool(mixing),
    )  # fmt: skip


def _mixing(graph: GraphEditor, x: str) -> list[NodeProto]:
    """The nodes of `worker.graphs.mixing.add_mixing` that end with `x`, in their order; none: it is not mixed."""
    makers: list[NodeProto] = []
    tensor = x
    for kind, side in (("Reshape", 0), ("MatMul", 1), ("MatMul", 0), ("Reshape", 0)):
        maker = graph.maker(tensor, kind)
        if maker is None:
            return []
        makers.insert(0, maker)
        tensor = maker.input[side]
    return makers if makers[1].input[1].startswith(MIXING) and makers[2].input[0].startswith(MIXING) else []


def _are_scales(graph: GraphEditor, tensor: str) -> bool:
    """Whether a tensor is the scales of rows (M, 1), of a quantization that is replaced or will be."""
    maker = graph.maker(tensor, "Unsqueeze", "FinishRows", "FinishProduct")
    if maker is None or maker.op_type == "Unsqueeze":
        return maker is not None and graph.maker(maker.input[0], "Mul") is not None
    return len(maker.output) > _SCALES and maker.output[_SCALES] == tensor


def _is_float(graph: GraphEditor, tensor: str) -> bool:
    weight = graph.weight(tensor)
    return weight is not None and weight.data_type == TensorProto.FLOAT


def _is_bias(graph: GraphEditor, tensor: str, product: NodeProto) -> bool:
    """Whether a tensor has one number for each column of the product."""
    bias, weight = graph.weight(tensor), graph.weight(product.input[1])
    return _is_float(graph, tensor) and bias is not None and weight is not None and bias.dims == weight.dims[1:]


def _is_known(activation: NodeProto) -> bool:
    return activation.op_type != "QuickGelu" or attributes(activation).get("alpha") == 1.0


def _other(node: NodeProto, tensor: str) -> str:
    """The input of a node with two inputs that is not `tensor`."""
    first, second = map(str, node.input)
    return second if first == tensor else first
