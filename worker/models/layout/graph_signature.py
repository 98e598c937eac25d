"""
The inputs and outputs of one graph, as an onnxruntime session or the header of its file describes them.

Knows: names, types, shapes. Does not know: what they are for.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol, Self

from worker.models.protobuf_fields import FieldSpan, fields_of

if TYPE_CHECKING:
    from onnx import ValueInfoProto
# Field numbers.
_IR_VERSION, _PRODUCER, _PRODUCER_VERSION, _GRAPH, _OPSET = 1, 2, 3, 7, 8  # of ModelProto
_INPUT, _OUTPUT = 11, 12  # of GraphProto


@dataclass(frozen=True, slots=True)
class Tensor:
    """One input or output of a graph, as the graph describes it."""

    name: str
    type: str  # "tensor(float)"
    shape: tuple[int | str | None, ...]  # a number; the name of an axis that varies, or None


class NodeArg(Protocol):
    """An element of `session.get_inputs()`."""

    name: str
    type: str
    shape: list[int | str | None]


class Session(Protocol):
    """An onnxruntime session, as far as its signature goes."""

    def get_inputs(self) -> list[NodeArg]: ...
    def get_outputs(self) -> list[NodeArg]: ...


@dataclass(frozen=True, slots=True)
class GraphSignature:
    """The inputs and outputs of one file."""

    file: str
    inputs: Mapping[str, Tensor]
    outputs: Mapping[str, Tensor]

    @classmethod
    def of(cls, file: Path | str, session: Session) -> Self:
        inputs, outputs = (
            {arg.name: Tensor(arg.name, arg.type, tuple(arg.shape)) for arg in args}
            for args in (session.get_inputs(), session.get_outputs())
        )
        return cls(str(file), inputs, outputs)


@dataclass(frozen=True, slots=True)
class GraphHeader:
    """What an ONNX file holds besides nodes and weights: the few fields of ModelProto and GraphProto (onnx.proto), for
    files that onnxruntime refuses, and for files of any size, all of which the onnx package would read."""

    ir_version: int
    opsets: Mapping[str, int]  # version by domain; the domain of ONNX itself is ""
    producer: str  # "pytorch 2.13.0"
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]

    def signature(self, file: Path) -> GraphSignature:
        """The signature that a session of this graph would report."""
        inputs, outputs = ({tensor.name: tensor for tensor in tensors} for tensors in (self.inputs, self.outputs))
        return GraphSignature(str(file), inputs, outputs)


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
                if inner in tensors and isinstance(part, FieldSpan):
                    tensors[inner].append(_tensor(ValueInfoProto.FromString(part.read(content))))
    if not ir_version or not tensors[_OUTPUT]:
        raise ValueError("no model")
    written_by = " ".join(filter(None, producer.values()))
    return GraphHeader(ir_version, opsets, written_by, tuple(tensors[_INPUT]), tuple(tensors[_OUTPUT]))


def _tensor(info: "ValueInfoProto") -> Tensor:
    """An input or output as onnxruntime describes it: type tensor(float), and names for axes that vary."""
    from onnx import TensorProto

    described = info.type.tensor_type
    kind = TensorProto.DataType.Name(described.elem_type).lower()
    shape = tuple(
        axis.dim_value if axis.HasField("dim_value") else axis.dim_param or None for axis in described.shape.dim
    )
    return Tensor(info.name, f"tensor({kind})", shape)
