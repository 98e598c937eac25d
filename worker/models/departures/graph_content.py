"""
The nodes and the constants of an ONNX file: what a graph computes, as far as its text tells it.

Knows: the few fields of ModelProto, GraphProto and TensorProto that say it (onnx.proto). Large weights are passed over
until somebody asks for them, so that a file of any size can be read. Does not know: what a node is for.
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
from worker.models.layout.graph_header import Span, fields_of

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto, TensorProto

# Numbers of fields.
_GRAPH = 7  # of ModelProto
_NODE, _INITIALIZER = 1, 5  # of GraphProto
_RAW_DATA = 9  # of TensorProto
_SMALL = 1 << 20  # bytes of a tensor that is read at once
_DTYPES = {1: np.float32, 6: np.int32, 7: np.int64, 9: np.bool_, 10: np.float16, 11: np.float64}  # by data_type
# What only gives a value another shape or type.
_PASSING = {"Identity", "Cast", "Unsqueeze", "Squeeze", "Reshape", "Flatten", "Transpose", "Expand"}

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
class Constant:
    """A tensor that a graph brings along."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    _read: Callable[[], Array]

    @property
    def size(self) -> int:
        """How many numbers."""
        return prod(self.shape)

    def values(self) -> Array:
        """All of it, read from the file where it is large."""
        return self._read().reshape(self.shape)


@dataclass(frozen=True, slots=True)
class Node:
    """One operation."""

    op: str
    domain: str  # "" and "ai.onnx" are ONNX itself
    inputs: tuple[str, ...]  # "" where one is left out
    outputs: tuple[str, ...]
    attributes: Mapping[str, int | float]  # numbers alone
    branches: tuple[Sequence[Constant | None], ...]  # of an If, then before else: each output, where it is a constant


@dataclass(frozen=True)
class GraphContent:
    """Nodes in the order of the file."""

    file: Path
    nodes: Sequence[Node]
    constants: Mapping[str, Constant] = field(repr=False)

    @classmethod
    def read(cls, file: Path) -> Self:
        """Read `file`; raise ModelError where that is no ONNX graph."""
        from google.protobuf.message import DecodeError

        try:
            with file.open("rb") as content:
                return cls(file, *_read(file, content))
        except (OSError, ValueError, DecodeError) as error:
            raise ModelError(f"{file} is not an ONNX graph that can be read ({error}): export it again") from error

    @property
    def is_quantized(self) -> bool:
        """Whether it is an approximation in integers."""
        return any(node.op in _QUANTIZED for node in self.nodes)

    def of(self, *ops: str) -> list[Node]:
        """The nodes of some operations."""
        return [node for node in self.nodes if node.op in ops]

    def constant(self, name: str) -> Constant | None:
        """What is behind a name, where that is a constant, also in another shape or type."""
        while name not in self.constants:
            node = self._makers.get(name)
            if node is None or node.op not in _PASSING:
                return None
            name = node.inputs[0]
        return self.constants[name]

    def number(self, name: str) -> float | None:
        """The same, of a single number."""
        found = self.constant(name)
        return float(found.values().reshape(-1)[0]) if found is not None and found.size == 1 else None

    def maker(self, name: str) -> Node | None:
        """The node that computes a tensor, seen through what only reshapes it."""
        node = self._makers.get(name)
        while node is not None and node.op in _PASSING:
            node = self._makers.get(node.inputs[0])
        return node

    def users(self, name: str) -> Iterator[Node]:
        """The nodes that take a tensor, seen through what only reshapes it."""
        for node in self._users.get(name, ()):
            if node.op in _PASSING and node.inputs[0] == name:
                yield from self.users(node.outputs[0])
            else:
                yield node

    @cached_property
    def _makers(self) -> Mapping[str, Node]:
        return {output: node for node in self.nodes for output in node.outputs}

    @cached_property
    def _users(self) -> Mapping[str, Sequence[Node]]:
        found: dict[str, list[Node]] = defaultdict(list)
        for node in self.nodes:
            for name in dict.fromkeys(node.inputs):
                found[name].append(node)
        return found


def _read(file: Path, content: BinaryIO) -> tuple[list[Node], dict[str, Constant]]:
    from onnx import NodeProto

    nodes: list[Node] = []
    constants: dict[str, Constant] = {}
    for number, graph in fields_of(content):
        if number != _GRAPH or not isinstance(graph, Span):
            continue
        for inner, part in fields_of(content, graph):
            if not isinstance(part, Span):
                continue
            if inner == _NODE:
                said = NodeProto.FromString(part.read(content))
                constants.update(_constants_of([said], file))
                nodes.append(_node(said, file))
            elif inner == _INITIALIZER:
                named = _large(file, content, part) if part.stop - part.start > _SMALL else _small(file, content, part)
                constants.update(named)
    if not nodes:
        raise ValueError("it has no node")
    return nodes, constants


def _node(said: "NodeProto", file: Path) -> Node:
    numbers: dict[str, int | float] = {}
    branches: dict[str, Sequence[Constant | None]] = {}
    for attribute in said.attribute:
        if attribute.HasField("i"):
            numbers[attribute.name] = attribute.i
        elif attribute.HasField("f"):
            numbers[attribute.name] = attribute.f
        elif attribute.HasField("g"):
            branches[attribute.name] = _branch(attribute.g, file)
    return Node(
        said.op_type,
        said.domain,
        tuple(said.input),
        tuple(said.output),
        numbers,
        tuple(branches[name] for name in ("then_branch", "else_branch") if name in branches),
    )


def _branch(graph: "GraphProto", file: Path) -> list[Constant | None]:
    found = dict(_constants_of(graph.node, file))
    for tensor in graph.initializer:
        found.update(_constant(tensor, file))
    return [found.get(output.name) for output in graph.output]


def _constants_of(nodes: Iterable["NodeProto"], file: Path) -> Iterator[tuple[str, Constant]]:
    for node in nodes:
        if node.op_type != "Constant":
            continue
        for attribute in node.attribute:
            if attribute.name == "value":
                yield from ((node.output[0], one) for one in _constant(attribute.t, file).values())
            elif attribute.name in ("value_float", "value_int"):
                value = np.asarray(attribute.f if attribute.name == "value_float" else attribute.i)
                yield node.output[0], Constant((), value.dtype, lambda value=value: value)  # type: ignore[misc]  # bound now


def _small(file: Path, content: BinaryIO, span: Span) -> dict[str, Constant]:
    from onnx import TensorProto

    return _constant(TensorProto.FromString(span.read(content)), file)


def _large(file: Path, content: BinaryIO, span: Span) -> dict[str, Constant]:
    """A tensor that stays where it is until somebody asks for it."""
    from onnx import TensorProto, numpy_helper

    parts: list[bytes] = []
    raw: Span | None = None
    at = span.start
    for number, part in fields_of(content, span):
        stop = part.stop if isinstance(part, Span) else content.tell()
        if number == _RAW_DATA and isinstance(part, Span):
            raw = part
        elif stop - at < _SMALL:
            parts.append(Span(at, stop).read(content))
        at = stop
    tensor = TensorProto.FromString(b"".join(parts))
    if tensor.data_type not in _DTYPES:
        return {}
    if raw is not None:
        return {tensor.name: _in_file(tensor, file, raw.start, raw.stop - raw.start)}

    def parse() -> Array:
        with file.open("rb") as again:
            return numpy_helper.to_array(TensorProto.FromString(span.read(again)))

    return {tensor.name: Constant(tuple(tensor.dims), np.dtype(_DTYPES[tensor.data_type]), parse)}


def _constant(tensor: "TensorProto", file: Path) -> dict[str, Constant]:
    """By its name; nothing of a type that is not looked at here, or of a file elsewhere."""
    from onnx import numpy_helper

    if tensor.data_type not in _DTYPES:
        return {}
    if tensor.data_location:  # in a file of its own
        said = {entry.key: entry.value for entry in tensor.external_data}
        name = said.get("location", "")
        if not name or Path(name).is_absolute() or ".." in Path(name).parts:
            return {}
        size = prod(tensor.dims) * np.dtype(_DTYPES[tensor.data_type]).itemsize
        return {tensor.name: _in_file(tensor, file.parent / name, int(said.get("offset", 0)), size)}
    value = numpy_helper.to_array(tensor)
    return {tensor.name: Constant(value.shape, value.dtype, lambda: value)}


def _in_file(tensor: "TensorProto", file: Path, offset: int, num_bytes: int) -> Constant:
    dtype = np.dtype(_DTYPES[tensor.data_type])

    def read() -> Array:
        try:
            found = np.fromfile(file, dtype, num_bytes // dtype.itemsize, offset=offset)
        except OSError as error:
            raise ModelError(f"{file} cannot be read: {error.strerror}") from error
        if found.size != prod(tensor.dims):
            raise ModelError(f"{file} ends before the tensor {tensor.name}: download or export the model again")
        return found

    return Constant(tuple(tensor.dims), dtype, read)
