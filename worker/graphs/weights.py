"""
The weights of all graphs of a model, in one file of ONNX external data, which onnxruntime maps into memory.

Knows: where each tensor lies. Does not know: which graph uses it how. Graphs that use the same tensor share its bytes.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Protocol, Self

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, helper, numpy_helper

from jobs.errors import ModelError

_ALIGNMENT = 4096  # bytes, a page: onnxruntime maps a tensor only at such an offset
_CHUNK = 1 << 24  # bytes copied at a time


class Store(Protocol):
    """The tensors that graphs refer to."""

    def __contains__(self, name: str) -> bool: ...

    def keep(self, name: str, array: NDArray[Any]) -> None:
        """Store a tensor under a new name."""

    def tensor(self, name: str) -> TensorProto:
        """A reference to the tensor, for a graph."""


class WeightsFile:
    """A weights file under construction. The same tensors in the same order give the same bytes."""

    def __init__(self, file: Path) -> None:
        self._name = file.name
        self._content = file.open("xb")
        self._tensors: dict[str, TensorProto] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._content.close()

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def keep(self, name: str, array: NDArray[Any]) -> None:
        """Append a tensor."""
        assert name not in self._tensors, name
        array = np.ascontiguousarray(array)
        end = self._content.tell()
        offset = -(-end // _ALIGNMENT) * _ALIGNMENT
        self._content.write(b"\0" * (offset - end))
        self._content.write(array.data)
        tensor = TensorProto(
            name=name,
            dims=array.shape,
            data_type=helper.np_dtype_to_tensor_dtype(array.dtype),
            data_location=TensorProto.EXTERNAL,
        )
        for key, value in (("location", self._name), ("offset", str(offset)), ("length", str(array.nbytes))):
            tensor.external_data.add(key=key, value=value)
        self._tensors[name] = tensor

    def tensor(self, name: str) -> TensorProto:
        """A reference to bytes in the file."""
        return self._tensors[name]


class WrittenWeights:
    """The tensors that a graph on disk refers to, for building another graph over the same weights."""

    def __init__(self, tensors: dict[str, TensorProto]) -> None:
        self._tensors = tensors

    @classmethod
    def read(cls, file: Path) -> Self:
        """The tensors of the graph in `file`; raise ModelError where it is not a graph."""
        return cls({tensor.name: tensor for tensor in read_graph(file).graph.initializer})

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def keep(self, name: str, array: NDArray[Any]) -> None:
        """Not supported: the file is complete."""
        raise AssertionError(name)

    def tensor(self, name: str) -> TensorProto:
        """A reference to bytes in the file."""
        return self._tensors[name]

    def map(self, name: str, folder: Path) -> NDArray[Any]:
        """The tensor as a memory-mapped array; `folder`: where the graph and its weights file are."""
        tensor = self._tensors[name]
        entry = _external_data(tensor)
        dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
        offset, shape = int(entry["offset"]), tuple(tensor.dims)
        return np.asarray(np.memmap(folder / entry["location"], dtype, "r", offset, shape))


class ExtendedWeights(WrittenWeights):
    """Written weights, and small tensors that are added: they lie in the graphs that use them."""

    def keep(self, name: str, array: NDArray[Any]) -> None:
        """Add a tensor."""
        assert name not in self._tensors, name
        self._tensors[name] = numpy_helper.from_array(np.ascontiguousarray(array), name)


def read_graph(file: Path) -> ModelProto:
    """The graph in a file, without its external weights; raise ModelError where it is not a graph."""
    try:
        return onnx.load(str(file), load_external_data=False)
    except (OSError, ValueError, DecodeError) as error:
        raise ModelError(f"{file} cannot be read: {error}") from error


def count_bytes(graphs: Sequence[ModelProto], data_type: int) -> int:
    """How many bytes of the weights file hold tensors of an ONNX data type; bytes that tensors share count once."""
    tensors = [tensor for graph in graphs for tensor in graph.graph.initializer if tensor.external_data]
    spans = [_external_data(tensor) for tensor in tensors if tensor.data_type == data_type]
    total = end = 0
    for start, length in sorted((int(location["offset"]), int(location["length"])) for location in spans):
        total += max(0, start + length - max(start, end))
        end = max(end, start + length)
    return total


def move_weights(graphs: Sequence[ModelProto], source: Path, file: Path) -> None:
    """Copy the external tensors of graphs from the folder `source` into a new weights file, to which they then refer.

    Tensors that share bytes, or lie one behind the other, do so in the new file too.
    """
    tensors = [stored for graph in graphs for stored in graph.graph.initializer if stored.external_data]
    spans = {(entry["location"], int(entry["offset"]), int(entry["length"])) for entry in map(_external_data, tensors)}
    moved: dict[tuple[str, int], int] = {}  # by file and offset of a tensor, the new offset
    with file.open("xb") as content:
        for name, start, stop, offsets in _runs(sorted(spans)):
            content.write(b"\0" * (-content.tell() % _ALIGNMENT))
            moved |= {(name, offset): content.tell() + offset - start for offset in offsets}
            with (source / name).open("rb") as old:
                old.seek(start)
                _copy(old, content, stop - start)
    for tensor in tensors:
        entry = _external_data(tensor)
        offset = moved[entry["location"], int(entry["offset"])]
        del tensor.external_data[:]
        for key, value in (("location", file.name), ("offset", str(offset)), ("length", entry["length"])):
            tensor.external_data.add(key=key, value=value)


def _runs(spans: Sequence[tuple[str, int, int]]) -> Iterator[tuple[str, int, int, list[int]]]:
    """Join sorted spans (file, offset, length) that touch: file, start and stop of each run, and the offsets in it."""
    file, start, stop, offsets = "", 0, 0, list[int]()
    for name, offset, length in spans:
        if offsets and (name, offset) <= (file, stop):
            stop = max(stop, offset + length)
            offsets.append(offset)
            continue
        if offsets:
            yield file, start, stop, offsets
        file, start, stop, offsets = name, offset, offset + length, [offset]
    if offsets:
        yield file, start, stop, offsets


def _copy(source: BinaryIO, target: BinaryIO, length: int) -> None:
    """Copy `length` bytes; raise ModelError if `source` ends before."""
    while length:
        chunk = source.read(min(length, _CHUNK))
        if not chunk:
            raise ModelError(f"{source.name} is shorter than its graphs say: add the model again")
        target.write(chunk)
        length -= len(chunk)


def part_of(tensor: TensorProto, name: str, start: int, stop: int) -> TensorProto:
    """A reference to rows `start` to `stop` of a tensor of the weights file, as the tensor `name`."""
    entry = _external_data(tensor)
    row = int(entry["length"]) // tensor.dims[0]
    return _reference(tensor, name, stop - start, int(entry["offset"]) + start * row)


def whole_of(first: TensorProto, name: str, rows: int) -> TensorProto:
    """A reference to the tensor of `rows` rows of which `first` is the first part, as the tensor `name`."""
    return _reference(first, name, rows, int(_external_data(first)["offset"]))


def _reference(like: TensorProto, name: str, rows: int, offset: int) -> TensorProto:
    """`rows` rows from `offset` on of the file in which `like` is."""
    entry = _external_data(like)
    row = int(entry["length"]) // like.dims[0]
    tensor = TensorProto(
        name=name, dims=(rows, *like.dims[1:]), data_type=like.data_type, data_location=TensorProto.EXTERNAL
    )
    for key, value in (("location", entry["location"]), ("offset", offset), ("length", rows * row)):
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def _external_data(tensor: TensorProto) -> dict[str, str]:
    """The file, offset and length in bytes of a tensor of external data."""
    return {entry.key: entry.value for entry in tensor.external_data}
