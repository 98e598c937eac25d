"""
An ONNX graph under construction, node by node.

Knows: names of tensors, IR version and opsets. Does not know: what is computed.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, helper, numpy_helper

from worker.graphs.weights import Store, part_of, whole_of

CONTRIB = "com.microsoft"
IR_VERSION = 10
OPSET = 21

_SMALL = 64  # elements of a constant in the graph; larger tensors go to the weights file

Shape = Sequence[int | str | None]


class GraphBuilder:
    """Methods take and return names of tensors; arrays go to the store at once."""

    def __init__(self, name: str, store: Store) -> None:
        self._name = name
        self._store = store
        self._nodes: list[Any] = []
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []
        self._initializers: dict[str, TensorProto] = {}
        self._made: set[str] = set()
        self.metadata: dict[str, str] = {}  # written into the model's metadata_props

    def __contains__(self, tensor: str) -> bool:
        """Whether a node computes the tensor."""
        return tensor in self._made

    def stores(self, tensor: str) -> bool:
        """Whether the store has the tensor."""
        return tensor in self._store

    def input(self, name: str, dtype: np.dtype[Any] | type, shape: Shape) -> str:
        """Add an input."""
        self._inputs.append(helper.make_tensor_value_info(name, _onnx_type(dtype), list(shape)))
        return name

    def output(self, tensor: str, name: str, dtype: np.dtype[Any] | type, shape: Shape) -> None:
        """Add an output `name` with the value of `tensor`."""
        if tensor != name:
            self._nodes.append(helper.make_node("Identity", [tensor], [name]))
        self._outputs.append(helper.make_tensor_value_info(name, _onnx_type(dtype), list(shape)))

    def weight(self, name: str, make: Callable[[], NDArray[Any]]) -> str:
        """A tensor of the weights file; `make` is called if the file does not have it yet."""
        if name not in self._initializers:
            if name not in self._store:
                self._store.keep(name, make())
            self._initializers[name] = self._store.tensor(name)
        return name

    def shape_of(self, weight: str) -> tuple[int, ...]:
        """The shape of a tensor that `weight` added."""
        return tuple(self._initializers[weight].dims)

    def part(self, name: str, make: Callable[[], NDArray[Any]], start: int, stop: int) -> str:
        """Rows `start` to `stop` of a tensor of the weights file, sharing its bytes."""
        part = f"{name}.{start}"
        if part not in self._initializers:
            if part in self._store:  # a written graph's store holds only the part
                self._initializers[part] = self._store.tensor(part)
                return part
            if name not in self._store:
                self._store.keep(name, make())
            self._initializers[part] = part_of(self._store.tensor(name), part, start, stop)
        return part

    def joined(self, name: str, rows: int) -> str:
        """A tensor of `rows` rows of which the store has the parts, which lie one after the other (see `part`)."""
        if name not in self._initializers:
            self._initializers[name] = whole_of(self._store.tensor(f"{name}.0"), name, rows)
        return name

    def constant(self, name: str, value: Any, dtype: np.dtype[Any] | type = np.int64) -> str:
        """A small tensor, stored in the graph itself."""
        array = np.asarray(value, dtype)
        assert array.size <= _SMALL, name
        self._initializers.setdefault(name, numpy_helper.from_array(array, name))
        return name

    def op(self, kind: str, *inputs: str, name: str, domain: str = "", **attributes: Any) -> str:
        """Add a node with one output, which has the name of the node."""
        return self.ops(kind, *inputs, outputs=[name], domain=domain, **attributes)[0]

    def ops(self, kind: str, *inputs: str, outputs: Sequence[str], domain: str = "", **attributes: Any) -> list[str]:
        """Add a node with several outputs; it has the name of the first."""
        node = helper.make_node(kind, list(inputs), list(outputs), name=outputs[0], domain=domain, **attributes)
        self._nodes.append(node)
        self._made.update(outputs)
        return list(outputs)

    def model(self) -> ModelProto:
        """The complete model."""
        graph = helper.make_graph(
            self._nodes, self._name, self._inputs, self._outputs, list(self._initializers.values())
        )
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(CONTRIB, 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="kvjobs")
        helper.set_model_props(model, self.metadata)
        return model

    def serialized(self) -> bytes:
        """The complete model's file; the same model gives the same bytes."""
        content: bytes = self.model().SerializeToString(deterministic=True)
        return content


def _onnx_type(dtype: np.dtype[Any] | type) -> int:
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
