"""
The nodes and constants of an ONNX file.

Knows: the few fields of ModelProto, GraphProto and TensorProto that hold them (onnx.proto). Large tensors are read on
access, so that a file of any size can be opened. Does not know: what a node is for.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Self

import numpy as np
from numpy.typing import NDArray

from jobs.errors import ModelError
from worker.models.protobuf_fields import FieldSpan, fields_of

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto, TensorProto

# Field numbers.
_GRAPH = 7  # of ModelProto
_NODE, _INITIALIZER = 1, 5  # of GraphProto
_RAW_DATA = 9  # of TensorProto
_SMALL = 1 << 20  # bytes of a tensor that is read when the file is opened
_DTYPES = {1: np.float32, 6: np.int32, 7: np.int64, 9: np.bool_, 10: np.float16, 11: np.float64}  # by data_type
# Nodes that change only the shape or the type of a value.
_RESHAPING = {"Identity", "Cast", "Unsqueeze", "Squeeze", "Reshape", "Flatten", "Transpose", "Expand"}

# Products of integers, or of weights that are kept as integers.
_QUANTIZED = {
    "DequantizeLinear",
    "DynamicQuantizeLinear",
    "DynamicQuantizeMatMul",
    "MatMulBnb4",
    "MatMulInteger",
    "MatMulIntegerToFloat",
    "MatMulNBits",
    "QMoE",
    "QuantizeLinear",
}

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class ConstantTensor:
    """An initializer, or the value of a Constant node."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    _read: Callable[[], Array]

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    def values(self) -> Array:
        """The elements; read from the file if the tensor is large."""
        return self._read().reshape(self.shape)


@dataclass(frozen=True, slots=True)
class Node:
    """One node of the graph."""

    op: str
    domain: str  # "" and "ai.onnx" are ONNX itself
    inputs: tuple[str, ...]  # "" for an optional input that is left out
    outputs: tuple[str, ...]
    attributes: Mapping[str, int | float]  # numbers alone
    branches: tuple[
        Sequence[ConstantTensor | None], ...
    ]  # of an If, then before else: its outputs that are constants, else None


@dataclass(frozen=True)
class GraphContent:
    """The graph of a file, its nodes in order."""

    file: Path
    nodes: Sequence[Node]
    constants: Mapping[str, ConstantTensor] = field(repr=False)

    @classmethod
    def read(cls, file: Path) -> Self:
        """Read `file`; raise ModelError where that is not an ONNX graph."""
        from google.protobuf.message import DecodeError

        try:
            with file.open("rb") as content:
                return cls(file, *_read(file, content))
        except (OSError, ValueError, DecodeError) as error:
            raise ModelError(f"{file} is not an ONNX graph that can be read ({error}): export it again") from error

    @property
    def is_quantized(self) -> bool:
        """Whether some product is one of integers, or of weights stored as integers."""
        return any(node.op in _QUANTIZED for node in self.nodes)

    def nodes_of(self, *ops: str) -> list[Node]:
        """The nodes of these operators."""
        return [node for node in self.nodes if node.op in ops]

    def constant(self, name: str) -> ConstantTensor | None:
        """The constant of this name, or the one that it is reshaped or cast from; None where it is computed."""
        while name not in self.constants:
            node = self._producers.get(name)
            if node is None or node.op not in _RESHAPING:
                return None
            name = node.inputs[0]
        return self.constants[name]

    def scalar(self, name: str) -> float | None:
        """The value of a constant with one element."""
        found = self.constant(name)
        return float(found.values().reshape(-1)[0]) if found is not None and found.size == 1 else None

    def producer(self, name: str) -> Node | None:
        """The node that computes a tensor, skipping nodes that reshape it."""
        node = self._producers.get(name)
        while node is not None and node.op in _RESHAPING:
            node = self._producers.get(node.inputs[0])
        return node

    def consumers(self, name: str) -> Iterator[Node]:
        """The nodes that take a tensor, skipping nodes that reshape it."""
        for node in self._consumers.get(name, ()):
            if node.op in _RESHAPING and node.inputs[0] == name:
                yield from self.consumers(node.outputs[0])
            else:
                yield node

    @cached_property
    def _producers(self) -> Mapping[str, Node]:
        return {output: node for node in self.nodes for output in node.outputs}

    @cached_property
    def _consumers(self) -> Mapping[str, Sequence[Node]]:
        found: dict[str, list[Node]] = defaultdict(list)
        for node in self.nodes:
            for name in dict.fromkeys(node.inputs):
                found[name].append(node)
        return found


def _read(file: Path, content: BinaryIO) -> tuple[list[Node], dict[str, ConstantTensor]]:
    from onnx import NodeProto

    nodes: list[Node] = []
    constants: dict[str, ConstantTensor] = {}
    for number, graph in fields_of(content):
        if number != _GRAPH or not isinstance(graph, FieldSpan):
            continue
        for inner, part in fields_of(content, graph):
            if not isinstance(part, FieldSpan):
                continue
            if inner == _NODE:
                node = NodeProto.FromString(part.read(content))
                constants.update(_constants_of([node], file))
                nodes.append(_node(node, file))
            elif inner == _INITIALIZER:
                read = _large if part.stop - part.start > _SMALL else _small
                constants.update(read(file, content, part))
    if not nodes:
        raise ValueError("it has no node")
    return nodes, constants


def _node(node: "NodeProto", file: Path) -> Node:
    numbers: dict[str, int | float] = {}
    branches: dict[str, Sequence[ConstantTensor | None]] = {}
    for attribute in node.attribute:
        if attribute.HasField("i"):
            numbers[attribute.name] = attribute.i
        elif attribute.HasField("f"):
            numbers[attribute.name] = attribute.f
        elif attribute.HasField("g"):
            branches[attribute.name] = _branch(attribute.g, file)
    return Node(
        node.op_type,
        node.domain,
        tuple(node.input),
        tuple(node.output),
        numbers,
        tuple(branches[name] for name in ("then_branch", "else_branch") if name in branches),
    )


def _branch(graph: "GraphProto", file: Path) -> list[ConstantTensor | None]:
    found = dict(_constants_of(graph.node, file))
    for tensor in graph.initializer:
        found.update(_constant(tensor, file))
    return [found.get(output.name) for output in graph.output]


def _constants_of(nodes: Iterable["NodeProto"], file: Path) -> Iterator[tuple[str, ConstantTensor]]:
    for node in nodes:
        if node.op_type != "Constant":
            continue
        for attribute in node.attribute:
            if attribute.name == "value":
                yield from ((node.output[0], array) for array in _constant(attribute.t, file).values())
            elif attribute.name in ("value_float", "value_int"):
                value = np.asarray(attribute.f if attribute.name == "value_float" else attribute.i)
                yield node.output[0], ConstantTensor((), value.dtype, lambda value=value: value)  # type: ignore[misc]  # bound now


def _small(file: Path, content: BinaryIO, span: FieldSpan) -> dict[str, ConstantTensor]:
    from onnx import TensorProto

    return _constant(TensorProto.FromString(span.read(content)), file)


def _large(file: Path, content: BinaryIO, span: FieldSpan) -> dict[str, ConstantTensor]:
    """A tensor that is read on access."""
    from onnx import TensorProto, numpy_helper

    parts: list[bytes] = []
    raw: FieldSpan | None = None
    at = span.start
    for number, part in fields_of(content, span):
        stop = part.stop if isinstance(part, FieldSpan) else content.tell()
        if number == _RAW_DATA and isinstance(part, FieldSpan):
            raw = part
        elif stop - at < _SMALL:
            parts.append(FieldSpan(at, stop).read(content))
        at = stop
    tensor = TensorProto.FromString(b"".join(parts))
    if tensor.data_type not in _DTYPES:
        return {}
    if raw is not None:
        return {tensor.name: _in_file(tensor, file, raw.start, raw.stop - raw.start)}

    def parse() -> Array:
        with file.open("rb") as again:
            return numpy_helper.to_array(TensorProto.FromString(span.read(again)))

    return {tensor.name: ConstantTensor(tuple(tensor.dims), np.dtype(_DTYPES[tensor.data_type]), parse)}


def _constant(tensor: "TensorProto", file: Path) -> dict[str, ConstantTensor]:
    """The constant by its name; empty for a type that is not needed here, and for data outside of the folder."""
    from onnx import numpy_helper

    if tensor.data_type not in _DTYPES:
        return {}
    if tensor.data_location:  # external data
        stored = {entry.key: entry.value for entry in tensor.external_data}
        name = stored.get("location", "")
        if not name or Path(name).is_absolute() or ".." in Path(name).parts:
            return {}
        size = prod(tensor.dims) * np.dtype(_DTYPES[tensor.data_type]).itemsize
        return {tensor.name: _in_file(tensor, file.parent / name, int(stored.get("offset", 0)), size)}
    value = numpy_helper.to_array(tensor)
    return {tensor.name: ConstantTensor(value.shape, value.dtype, lambda: value)}


def _in_file(tensor: "TensorProto", file: Path, offset: int, num_bytes: int) -> ConstantTensor:
    dtype = np.dtype(_DTYPES[tensor.data_type])

    def read() -> Array:
        try:
            found = np.fromfile(file, dtype, num_bytes // dtype.itemsize, offset=offset)
        except OSError as error:
            raise ModelError(f"{file} cannot be read: {error.strerror}") from error
        if found.size != prod(tensor.dims):
            raise ModelError(f"{file} ends before the tensor {tensor.name}: download or export the model again")
        return found

    return ConstantTensor(tuple(tensor.dims), dtype, read)
