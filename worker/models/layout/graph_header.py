"""
The header of an ONNX file: versions, producer, inputs and outputs. Nodes and weights are skipped.

Knows: the few fields of ModelProto and GraphProto that hold it (onnx.proto), and the wire format of protobuf. For files
that onnxruntime refuses, and for files of any size: the onnx package would read all of them.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from worker.models.layout.graph_signature import GraphSignature, Tensor

if TYPE_CHECKING:
    from onnx import ValueInfoProto

# Field numbers.
_IR_VERSION, _PRODUCER, _PRODUCER_VERSION, _GRAPH, _OPSET = 1, 2, 3, 7, 8  # of ModelProto
_INPUT, _OUTPUT = 11, 12  # of GraphProto


@dataclass(frozen=True, slots=True)
class GraphHeader:
    """What an ONNX file holds besides nodes and weights."""

    ir_version: int
    opsets: Mapping[str, int]  # version by domain; that of ONNX itself is ""
    producer: str  # "pytorch 2.13.0"
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]

    def signature(self, file: Path) -> GraphSignature:
        """The signature that a session of this graph would report."""
        inputs, outputs = ({one.name: one for one in some} for some in (self.inputs, self.outputs))
        return GraphSignature(str(file), inputs, outputs)


@dataclass(frozen=True, slots=True)
class Span:
    """The place of a field's content in a file."""

    start: int
    stop: int

    def read(self, content: BinaryIO) -> bytes:
        content.seek(self.start)
        return content.read(self.stop - self.start)


def read_header(file: Path) -> GraphHeader | None:
    """The header of `file`; None where it is not a complete ONNX graph."""
    from google.protobuf.message import DecodeError

    try:
        with file.open("rb") as content:
            return _read(content)
    except (OSError, ValueError, DecodeError):
        return None


def _read(content: BinaryIO) -> GraphHeader:
    from onnx import OperatorSetIdProto, ValueInfoProto

    ir_version, opsets = 0, {}
    producer = {_PRODUCER: "", _PRODUCER_VERSION: ""}
    tensors: dict[int, list[Tensor]] = {_INPUT: [], _OUTPUT: []}
    for number, value in fields_of(content):
        if isinstance(value, int):
            ir_version = value if number == _IR_VERSION else ir_version
        elif number in producer:
            producer[number] = value.read(content).decode(errors="replace")
        elif number == _OPSET:
            opset = OperatorSetIdProto.FromString(value.read(content))
            opsets[opset.domain] = opset.version
        elif number == _GRAPH:
            for inner, part in fields_of(content, value):
                if inner in tensors and isinstance(part, Span):
                    tensors[inner].append(_tensor(ValueInfoProto.FromString(part.read(content))))
    if not ir_version or not tensors[_OUTPUT]:
        raise ValueError("no model")
    written_by = " ".join(filter(None, producer.values()))
    return GraphHeader(ir_version, opsets, written_by, tuple(tensors[_INPUT]), tuple(tensors[_OUTPUT]))


def fields_of(content: BinaryIO, span: Span | None = None) -> Iterator[tuple[int, int | Span]]:
    """Number and content of each field of a message: the whole file, or a span of it.

    Raises ValueError where it is not protobuf, or ends too early.
    """
    span = span or Span(0, content.seek(0, os.SEEK_END))
    at = span.start
    while at < span.stop:
        content.seek(at)
        key = _varint(content)
        value: int | Span = 0
        match key & 7:
            case 0:  # a number
                value = _varint(content)
                at = content.tell()
            case 1 | 5 as kind:  # 8 or 4 bytes, which no field here has
                at = content.tell() + (8 if kind == 1 else 4)
            case 2:  # bytes, text, a message
                length = _varint(content)
                value = Span(content.tell(), content.tell() + length)
                at = value.stop
            case _:
                raise ValueError("no protobuf")
        if at > span.stop:
            raise ValueError("it ends too early")
        yield key >> 3, value


def _varint(content: BinaryIO) -> int:
    """Seven bits a byte, the lowest first; the eighth bit: more bytes follow."""
    number = 0
    for shift in range(0, 70, 7):
        byte = content.read(1)
        if not byte:
            raise ValueError("it ends too early")
        number |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return number
    raise ValueError("no protobuf")


def _tensor(info: "ValueInfoProto") -> Tensor:
    """An input or output as onnxruntime describes it: type tensor(float), and names for axes that vary."""
    from onnx import TensorProto

    described = info.type.tensor_type
    kind = TensorProto.DataType.Name(described.elem_type).lower()
    shape = tuple(
        axis.dim_value if axis.HasField("dim_value") else axis.dim_param or None for axis in described.shape.dim
    )
    return Tensor(info.name, f"tensor({kind})", shape)
