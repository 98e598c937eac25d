"""
The inputs and outputs of one graph, as an onnxruntime session or the header of its file describes them.

Knows: names, types, shapes. Does not know: what they are for.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self


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
