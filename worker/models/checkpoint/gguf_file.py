"""
A GGUF file, the format of llama.cpp: its metadata, and where its tensors lie.

Knows: versions 2 and 3 of the format, little-endian (ggml/docs/gguf.md in llama.cpp). Does not know: what keys and
tensors mean, nor how each type stores weights: the package `gguf` has its blocks, and dequantizes them.

    GGUF, version, number of tensors, number of pairs
    pairs       key, type, value
    tensors     name, dimensions (innermost first), type, offset
    padding, then the tensors themselves

The header is read here and not by the package's GGUFReader, which trusts the file and makes an array of each token:
gguf 0.19 was still busy after 40 seconds with a file of 121 bytes that announces 2^40 numbers, and the 262,144 tokens
of Gemma-3 took it 9.9 s and 716 MB (Xeon, 2026-11-26), which are 0.17 s and 40 MB here. No count is believed
before the file is seen to be long enough.

`gguf` is imported where it is needed: that takes 0.1 s, and a worker of native graphs reads no such file.
"""

import functools
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np

from jobs.errors import ModelError
from worker.models.checkpoint.tensor_files import Weight
from worker.models.readable_file import open_file, refuse_placeholder

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_MAX_HEADER = 128 << 20  # bytes; of Llama 3, with 128,256 tokens and their merges, a header has 8 MB
_MAX_ITEMS = 1 << 22  # of all lists of a header; a byte of the file may become 40 bytes here
_MAX_NAME = 200  # characters; llama.cpp allows 63 for a tensor
_MAX_DIMENSIONS = 4
_ALIGNMENT = "general.alignment"
_DEFAULT_ALIGNMENT = 32

# The types of values: formats of `struct`.
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9

_CHUNK = 1 << 22  # weights that are dequantized at once, beside the array of all


class _DamagedHeader(Exception):
    """The file contradicts itself, or ends too early."""


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """The place of a tensor in a GGUF file."""

    file: Path
    name: str
    type: str  # F32, Q8_0, ...; may be one that cannot be read
    shape: tuple[int, ...]  # outermost dimension first
    offset: int  # bytes from the start of the file
    num_bytes: int  # 0 for a type that is not known

    @property
    def num_weights(self) -> int:
        return math.prod(self.shape)

    def read(self) -> Weight:
        """A copy as float32; raise ModelError where the file has become too short, or `can_read` is false."""
        from gguf import GGMLQuantizationType, quants

        if not can_read(self.type):
            raise ModelError(f"{self.file} holds weights as {self.type}, which cannot be read")
        columns = self.shape[-1]
        weight = np.empty((self.num_weights // columns, columns), np.float32)
        row_bytes, step = self.num_bytes // len(weight), max(1, _CHUNK // columns)
        try:
            with self.file.open("rb") as content:
                content.seek(self.offset)
                for start in range(0, len(weight), step):
                    rows = weight[start : start + step]
                    stored = np.fromfile(content, np.uint8, len(rows) * row_bytes)
                    if len(stored) != len(rows) * row_bytes:
                        raise ModelError(f"{self.file} ends within {self.name}: it is incomplete; download it again")
                    with np.errstate(all="ignore"):  # 0 times an infinite scale is no number, as in llama.cpp
                        rows[:] = quants.dequantize(stored.reshape(len(rows), -1), GGMLQuantizationType[self.type])
        except OSError as error:
            raise ModelError(f"{self.file} cannot be read: {error.strerror}") from error
        return weight.reshape(self.shape)


@functools.cache
def can_read(kind: str) -> bool:
    """Whether the package `gguf` dequantizes a type of weights: the names of its GGMLQuantizationType."""
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, quants

    if kind not in GGMLQuantizationType.__members__:
        return False
    _, block_bytes = GGML_QUANT_SIZES[GGMLQuantizationType[kind]]
    try:
        quants.dequantize(np.zeros((1, block_bytes), np.uint8), GGMLQuantizationType[kind])
    except NotImplementedError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class GgufFile:
    """The header of a GGUF file."""

    path: Path
    metadata: Mapping[str, Any]  # numbers, strings, lists of them
    tensors: Mapping[str, GgufTensor]

    @property
    def bits_per_weight(self) -> float:
        """The mean over all tensors, scales included."""
        tensors = self.tensors.values()
        return 8 * sum(tensor.num_bytes for tensor in tensors) / sum(tensor.num_weights for tensor in tensors)

    @classmethod
    def open(cls, path: Path) -> Self:
        """Read the header; raise ModelError for a file that is damaged, incomplete, or no GGUF file."""
        refuse_placeholder(path)
        with open_file(path) as content:
            try:
                return cls(path, *_read_header(path, content))
            except _DamagedHeader as error:
                raise ModelError(f"{path} is damaged or incomplete ({error}): download it again") from None
            except OSError as error:
                raise ModelError(f"{path} cannot be read: {error.strerror}") from error


def _read_header(path: Path, content: BinaryIO) -> tuple[dict[str, Any], dict[str, GgufTensor]]:
    size = path.stat().st_size
    header = _Header(content, min(size, _MAX_HEADER))
    if header.take(4) != _MAGIC:
        raise ModelError(f"{path} is no GGUF file: it does not begin with GGUF")
    version = header.number("I")
    if version not in _VERSIONS:
        known = ", ".join(map(str, _VERSIONS))
        raise ModelError(
            f"{path} has version {version} of GGUF; supported are {known}, little-endian: convert it again"
        )
    num_tensors, num_pairs = header.number("Q"), header.number("Q")
    metadata: dict[str, Any] = {}
    for _ in range(header.checked(num_pairs, 12)):
        key = header.name()
        if key in metadata:
            raise _DamagedHeader(f"{key} is there twice")
        metadata[key] = header.value(header.number("I"))
    found = [_read_tensor(header) for _ in range(header.checked(num_tensors, 24))]
    alignment = metadata.get(_ALIGNMENT, _DEFAULT_ALIGNMENT)
    if type(alignment) is not int or not 0 < alignment <= 1 << 20:
        raise _DamagedHeader(f"{_ALIGNMENT} is {alignment!r}")
    start = -(-content.tell() // alignment) * alignment
    tensors: dict[str, GgufTensor] = {}
    for name, shape, kind, offset in found:
        if name in tensors:
            raise _DamagedHeader(f"the tensor {name} is there twice")
        type_name, unit, block_bytes = _block(kind)
        if shape[-1] % unit:
            raise _DamagedHeader(f"the rows of {name} have {shape[-1]} elements, which {type_name} cannot store")
        num_bytes = math.prod(shape) // unit * block_bytes
        if start + offset + num_bytes > size:
            raise _DamagedHeader(f"{name} lies beyond its end")
        tensors[name] = GgufTensor(path, name, type_name, shape, start + offset, num_bytes)
    return metadata, tensors


def _block(kind: int) -> tuple[str, int, int]:
    """The name of a type by its number in the file, the elements of a block, and its bytes: 0 for an unknown type."""
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

    try:
        known = GGMLQuantizationType(kind)
    except ValueError:
        return f"type {kind}", 1, 0
    return (known.name, *GGML_QUANT_SIZES[known])


def _read_tensor(header: "_Header") -> tuple[str, tuple[int, ...], int, int]:
    """Name, shape, type, offset from the start of the tensors."""
    name = header.name()
    num_dimensions = header.number("I")
    if not 0 < num_dimensions <= _MAX_DIMENSIONS:
        raise _DamagedHeader(f"{name} has {num_dimensions} dimensions")
    shape = tuple(reversed([header.number("Q") for _ in range(num_dimensions)]))
    if 0 in shape:
        raise _DamagedHeader(f"{name} is empty")
    return name, shape, header.number("I"), header.number("Q")


class _Header:
    """Reads the values of a header one after the other; raises _DamagedHeader where it would end within one."""

    def __init__(self, content: BinaryIO, size: int) -> None:
        self._content = content
        self._left = size  # bytes
        self._items_left = _MAX_ITEMS

    def take(self, num_bytes: int) -> bytes:
        if num_bytes > self._left:
            raise _DamagedHeader("it ends within its header")
        self._left -= num_bytes
        found = self._content.read(num_bytes)
        if len(found) != num_bytes:
            raise _DamagedHeader("it ends within its header")
        return found

    def checked(self, count: int, num_bytes: int) -> int:
        """Return `count` if the header is long enough for `count` items of at least `num_bytes` each."""
        if count * num_bytes > self._left:
            raise _DamagedHeader(f"its header announces {count:,} items, more than it can hold")
        self._items_left -= count
        if self._items_left < 0:
            raise _DamagedHeader(f"its header has more than {_MAX_ITEMS:,} items")
        return count

    def number(self, code: str) -> Any:
        return struct.unpack(f"<{code}", self.take(struct.calcsize(f"<{code}")))[0]

    def string(self) -> str:
        try:
            return self.take(self.number("Q")).decode()
        except UnicodeDecodeError:
            raise _DamagedHeader("a string is not UTF-8") from None

    def name(self) -> str:
        """A key, or the name of a tensor: short enough, and safe, to be part of an error message."""
        name = self.string()
        if not name.isprintable() or len(name) > _MAX_NAME:
            raise _DamagedHeader("a name is too long, or holds characters that cannot be printed")
        return name

    def value(self, kind: int) -> Any:
        if kind in _NUMBERS:
            return self.number(_NUMBERS[kind])
        if kind == _STRING:
            return self.string()
        if kind != _ARRAY:
            raise _DamagedHeader(f"a value has the unknown type {kind}")
        inner, count = self.number("I"), self.number("Q")
        if inner == _STRING:
            return [self.string() for _ in range(self.checked(count, 8))]
        if inner not in _NUMBERS:
            raise _DamagedHeader(f"a list holds values of the type {inner}")
        code = _NUMBERS[inner]
        size = struct.calcsize(f"<{code}")
        return list(struct.unpack(f"<{count}{code}", self.take(self.checked(count, size) * size)))
