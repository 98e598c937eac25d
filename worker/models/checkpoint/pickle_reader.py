"""
Where the tensors of a pytorch_model.bin lie, read without torch.

Most published OPUS-MT models have their weights in no other form. A pickle is a program. This reader knows only the
names that `torch.save` uses for a dictionary of tensors, and replaces each by an object that records where a tensor
lies. A pickle that names anything else is refused before any of it runs.

Knows: both formats of torch.save (torch/serialization.py):

    zip archive (torch 1.6 and later)   NAME/data.pkl, NAME/data/KEY: the bytes of a storage, not compressed
    earlier                             four pickles and the keys of the storages, then of each its length and bytes
"""

import math
import pickle
import pickletools
import struct
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import numpy as np

from jobs.errors import ModelError
from worker.models.checkpoint.tensor_files import DTYPES, StoredTensor

_MAGIC = 0x1950A86A20F9469CFC6C
_PROTOCOL = 1001
# Storage classes of torch: a dtype for classes that hold weights, bytes per element for others, which are skipped.
_STORAGES = {"FloatStorage": "F32", "HalfStorage": "F16", "BFloat16Storage": "BF16", "DoubleStorage": "F64"}
_OTHER_STORAGES = {
    "LongStorage": 8,
    "IntStorage": 4,
    "ShortStorage": 2,
    "CharStorage": 1,
    "ByteStorage": 1,
    "BoolStorage": 1,
}
_OPCODES = [ord(opcode.code) for opcode in pickletools.opcodes if opcode.proto <= 2]  # torch writes protocol 2


@dataclass(frozen=True, slots=True)
class _Storage:
    """A block of memory that tensors are views of."""

    kind: str  # FloatStorage
    key: str
    num_elements: int

    @property
    def item_size(self) -> int:
        if self.kind in _OTHER_STORAGES:
            return _OTHER_STORAGES[self.kind]
        return np.dtype(DTYPES[_STORAGES[self.kind]]).itemsize


@dataclass(frozen=True, slots=True)
class _View:
    """A tensor in a storage."""

    storage: _Storage
    offset: int  # elements
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class _Refused(Exception):
    """The pickle names something other than weights."""


class _DamagedPickle(Exception):
    """The file contradicts itself."""


def read_pickle(file: Path) -> Iterator[StoredTensor]:
    """The tensors of a file written by `torch.save(model.state_dict(), file)`; raise ModelError for any other file."""
    try:
        views, starts = _read_zip(file) if zipfile.is_zipfile(file) else _read_old(file)
        tensors = [_place(file, name, view, starts) for name, view in views.items()]
    except _Refused as error:
        raise ModelError(
            f"{file} holds more than weights ({error}), and a pickle can run any program: take a checkpoint with "
            "model.safetensors, or, if you trust this one, convert its weights to safetensors with torch"
        ) from None
    except OSError as error:
        raise ModelError(f"{file} cannot be read: {error.strerror}") from error
    except _DamagedPickle as error:
        raise ModelError(f"{file} is damaged, or torch did not write it ({error}): download it again") from error
    except Exception as error:  # a damaged archive or pickle can raise anything
        raise ModelError(f"{file} is damaged, or torch did not write it: download it again") from error
    yield from tensors


def _read_zip(file: Path) -> tuple[Mapping[str, _View], dict[str, int]]:
    """The tensors by name, and where each storage starts in the file."""
    with zipfile.ZipFile(file) as archive, file.open("rb") as content:
        entries = {info.filename: info for info in archive.infolist()}
        if packed := [info.filename for info in entries.values() if info.compress_type != zipfile.ZIP_STORED]:
            raise _DamagedPickle(f"{packed[0]} is compressed")
        (head,) = (name for name in entries if name.count("/") == 1 and name.endswith("/data.pkl"))
        folder = head.removesuffix("data.pkl")
        if f"{folder}byteorder" in entries and archive.read(f"{folder}byteorder") != b"little":
            raise _DamagedPickle("its numbers are big-endian")
        with archive.open(head) as program:
            views = _views(_Unpickler(program).load())
        starts = {
            name.removeprefix(f"{folder}data/"): _start(content, info)
            for name, info in entries.items()
            if name.startswith(f"{folder}data/")
        }
    return views, starts


def _start(content: BinaryIO, info: zipfile.ZipInfo) -> int:
    """Offset of an entry's content, behind its local header, whose name and padding vary in length."""
    content.seek(info.header_offset)
    header = content.read(30)
    if header[:4] != b"PK\3\4":
        raise _DamagedPickle("an entry of the archive is not at its offset")
    name, extra = struct.unpack("<HH", header[26:30])
    return info.header_offset + len(header) + int(name) + int(extra)


def _read_old(file: Path) -> tuple[Mapping[str, _View], dict[str, int]]:
    """As `_read_zip`, for the format before torch 1.6."""
    with file.open("rb") as content:
        if _Unpickler(content).load() != _MAGIC or _Unpickler(content).load() != _PROTOCOL:
            raise _DamagedPickle("it does not begin with torch's magic number")
        if not _Unpickler(content).load()["little_endian"]:
            raise _DamagedPickle("its numbers are big-endian")
        program = _Unpickler(content)
        views = _views(program.load())
        keys = _Unpickler(content).load()
        starts = {}
        for key in keys:
            storage = program.storages[key]
            (num_elements,) = struct.unpack("<q", content.read(8))
            if num_elements != storage.num_elements:
                raise _DamagedPickle("a storage has another length than its tensors need")
            starts[key] = content.tell()
            content.seek(num_elements * storage.item_size, 1)
    return views, starts


def _views(unpickled: Any) -> Mapping[str, _View]:
    if not isinstance(unpickled, dict) or not all(isinstance(value, _View) for value in unpickled.values()):
        raise _Refused(f"its outermost object ({type(unpickled).__name__}) is not a dictionary of tensors")
    return unpickled


def _place(file: Path, name: str, view: _View, starts: Mapping[str, int]) -> StoredTensor:
    """Where the tensor lies in the file; raise _DamagedPickle where that is outside its storage."""
    storage, numbers = view.storage, (view.offset, *view.shape, *view.strides)
    if any(type(number) is not int or number < 0 for number in numbers) or len(view.shape) != len(view.strides):
        raise _DamagedPickle(f"{name} has an invalid shape")
    last = view.offset + sum((size - 1) * stride for size, stride in zip(view.shape, view.strides, strict=True))
    start, is_empty = starts[storage.key], 0 in view.shape
    if not is_empty and max(last + 1, math.prod(view.shape)) > storage.num_elements:
        # Strides of 0 could expand one element to any number. Weights are never saved like that.
        raise _DamagedPickle(f"{name} is larger than its storage")
    if start + storage.num_elements * storage.item_size > file.stat().st_size:
        raise _DamagedPickle("it ends too early")
    dtype = _STORAGES.get(storage.kind, storage.kind.removesuffix("Storage").lower())
    offset = start + view.offset * storage.item_size
    strides = None if view.strides == _row_major(view.shape) else view.strides
    return StoredTensor(file, str(name), dtype, view.shape, offset, strides)


def _row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


class _Stub:
    """Stands in for a name in a pickle. It has no attributes, and a pickle cannot set any."""

    __slots__ = ("_call", "name")

    name: str
    _call: Callable[..., Any] | None

    def __init__(self, name: str, call: Callable[..., Any] | None = None) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "_call", call)

    def __setattr__(self, name: str, value: Any) -> None:
        raise _Refused(f"it sets {name} of {self.name}")

    def __call__(self, *arguments: Any) -> Any:
        if self._call is None:
            raise _Refused(f"it calls {self.name}")
        return self._call(*arguments)


class _Unpickler(pickle._Unpickler):  # type: ignore[name-defined,misc,unused-ignore]  # see below
    """Resolves the names that a dictionary of tensors needs, and no other.

    Derived from the implementation in Python: where a damaged file names the two-billionth object of a memo, the one
    in C allocates two billion of them. Opcodes after protocol 2, which torch writes, are unknown.
    """

    dispatch: ClassVar = {code: pickle._Unpickler.dispatch[code] for code in _OPCODES}  # type: ignore[attr-defined,unused-ignore]

    def __init__(self, content: Any) -> None:
        super().__init__(content)
        self.storages: dict[str, _Storage] = {}

    def find_class(self, module: str, name: str, /) -> Any:
        match module, name:
            case "collections", "OrderedDict":
                return _Stub(name, OrderedDict)
            case "torch._utils", "_rebuild_tensor_v2":
                return _Stub(name, _rebuild_tensor)
            case "torch._utils", "_rebuild_parameter":
                return _Stub(name, lambda tensor, *_: tensor)
            case "torch", kind if kind in _STORAGES or kind in _OTHER_STORAGES:
                return _Stub(kind)
        raise _Refused(f"{module}.{name}")

    def persistent_load(self, pid: Any, /) -> _Storage:
        if not isinstance(pid, tuple):  # a truncated archive begins with PK, and P is an opcode: what follows is a text
            raise ValueError("a storage is named by a text")
        _, kind, key, _, num_elements, *views = pid
        if views not in ([], [None]):
            raise _Refused("a storage that is part of another")
        storage = _Storage(kind.name, str(key), int(num_elements))
        return self.storages.setdefault(storage.key, storage)


def _rebuild_tensor(storage: _Storage, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], *_: Any) -> _View:
    if not isinstance(storage, _Storage):
        raise _Refused("a tensor without a storage")
    return _View(storage, offset, tuple(shape), tuple(strides))
