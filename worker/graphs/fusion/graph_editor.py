"""
A graph whose nodes are replaced, group by group.

Knows: who makes and who reads a tensor. Does not know: what nodes compute.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from worker.kernels.library import KERNELS

# Of a node of these kinds, the input whose type its output has. Others may give another type, or are not asked.
_SAME_TYPE = {"MatMul": 1, "Gemm": 1, "Add": 1}
_FLOAT_PRODUCT = "MatMulIntegerToFloat"


@dataclass(frozen=True, slots=True)
class Input:
    """An input of the graph."""

    dtype: int  # TensorProto.FLOAT, ...
    shape: list[int | str]


class GraphEditor:
    """Collects changes of a model, which `write` makes."""

    def __init__(self, model: ModelProto) -> None:
        self._model = model
        self._nodes: dict[int, NodeProto] = {}
        self._outputs = {entry.name for entry in model.graph.output}
        self._inputs = {entry.name: entry for entry in model.graph.input}
        self._initializers = {tensor.name: tensor for tensor in model.graph.initializer}
        self._makers: dict[str, NodeProto] = {}
        self._readers: dict[str, list[NodeProto]] = defaultdict(list)
        for node in model.graph.node:
            self._add(node)

    @property
    def nodes(self) -> list[NodeProto]:
        """The nodes of the graph after all replacements so far."""
        return list(self._nodes.values())

    def maker(self, tensor: str, *kinds: str) -> NodeProto | None:
        """The node that makes the tensor, if it is of one of these kinds."""
        node = self._makers.get(tensor)
        return node if node is not None and node.op_type in kinds else None

    def readers(self, tensor: str) -> list[NodeProto]:
        """The nodes that read the tensor; one that reads it twice is there twice."""
        return self._readers[tensor]

    def only_reader(self, tensor: str, *kinds: str) -> NodeProto | None:
        """The one node that reads the tensor, if it is of one of these kinds and nothing else needs the tensor."""
        readers = self._readers[tensor]
        if len(readers) != 1 or tensor in self._outputs or readers[0].op_type not in kinds:
            return None
        return readers[0]

    def is_output(self, tensor: str) -> bool:
        """Whether it is an output of the graph."""
        return tensor in self._outputs

    def input(self, tensor: str) -> Input | None:
        """The input of the graph of that name."""
        if (entry := self._inputs.get(tensor)) is None:
            return None
        tensor_type = entry.type.tensor_type
        return Input(tensor_type.elem_type, [axis.dim_param or axis.dim_value for axis in tensor_type.shape.dim])

    def weight(self, tensor: str) -> TensorProto | None:
        """The initializer of that name."""
        return self._initializers.get(tensor)

    def value(self, tensor: str) -> NDArray[Any] | None:
        """The value of a small initializer; None where it is none, or lies in the weights file."""
        initializer = self._initializers.get(tensor)
        if initializer is None or initializer.data_location == TensorProto.EXTERNAL:
            return None
        return numpy_helper.to_array(initializer)

    def dtype_of(self, tensor: str) -> int | None:
        """The type of a tensor that is a product with weights, plus a bias or not; None for any other tensor."""
        node = self._makers.get(tensor)
        if node is None:
            weight = self._initializers.get(tensor)
            return None if weight is None else weight.data_type
        if node.op_type == _FLOAT_PRODUCT or node.domain == KERNELS:
            return TensorProto.FLOAT
        return self.dtype_of(node.input[_SAME_TYPE[node.op_type]]) if node.op_type in _SAME_TYPE else None

    def replace(self, old: Iterable[NodeProto], new: NodeProto) -> None:
        """Put a node in the place of others. Nodes that only these needed are left out when the model is written."""
        for node in old:
            del self._nodes[id(node)]
            for name in node.output:
                self._makers.pop(name, None)
            for name in _reads(node):
                self._readers[name] = [reader for reader in self._readers[name] if reader is not node]
        self._add(new)

    def write(self) -> None:
        """Write the nodes back, each after the nodes whose results it reads."""
        self._drop_unread()
        ordered = _in_order(self.nodes)
        read = {name for node in ordered for name in _reads(node)} | self._outputs
        initializers = [tensor for tensor in self._model.graph.initializer if tensor.name in read]
        nodes = [NodeProto.FromString(node.SerializeToString()) for node in ordered]  # `ordered` is part of the graph
        del self._model.graph.node[:], self._model.graph.initializer[:]
        self._model.graph.node.extend(nodes)
        self._model.graph.initializer.extend(initializers)
        self._model.opset_import.append(helper.make_opsetid(KERNELS, 1))

    def _drop_unread(self) -> None:
        while True:
            read = {name for node in self.nodes for name in _reads(node)} | self._outputs
            unread = [node for node in self.nodes if read.isdisjoint(node.output)]
            if not unread:
                return
            for node in unread:
                del self._nodes[id(node)]

    def _add(self, node: NodeProto) -> None:
        self._nodes[id(node)] = node
        for name in filter(None, node.output):
            self._makers[name] = node
        for name in filter(None, _reads(node)):
            self._readers[name].append(node)


def _in_order(nodes: list[NodeProto]) -> list[NodeProto]:
    """Sort nodes so that each comes after the nodes whose results it reads. A cycle leaves them as they are:
    onnxruntime reports it with the name of the file."""
    makers = {name: index for index, node in enumerate(nodes) for name in node.output if name}
    waits = {
        index: {makers[name] for name in _reads(node) if name in makers} - {index} for index, node in enumerate(nodes)
    }
    try:
        return [nodes[index] for index in TopologicalSorter(waits).static_order()]
    except CycleError:
        return nodes


def _reads(node: NodeProto) -> list[str]:
    """The tensors that a node reads. Graphs inside it (of an If) read those around them by name; the names of their own
    tensors are there too."""
    inside = [part.g for part in node.attribute if part.type == AttributeProto.GRAPH]
    within = [name for graph in inside for inner in graph.node for name in _reads(inner)]
    return [*node.input, *within, *(entry.name for graph in inside for entry in graph.output)]


def attributes(node: NodeProto) -> dict[str, Any]:
    """The attributes of a node, by name."""
    return {entry.name: helper.get_attribute_value(entry) for entry in node.attribute}


def scalar(array: NDArray[Any] | None) -> float | None:
    """The only number of an array; None for any other array."""
    return float(np.ravel(array)[0]) if array is not None and array.size == 1 else None
