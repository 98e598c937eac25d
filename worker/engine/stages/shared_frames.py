"""
Values sent between two processes of one machine: pickles over a pair of sockets, the bytes of their arrays through
shared memory (pickle protocol 5, PEP 574).

Both sides own one memory that they write and one that they read. A frame lies in the memory until the writer sends the
next, so the two sides take turns: a frame, its answer, a frame.
"""

import mmap
import os
import pickle
import socket
import struct
import tempfile
from typing import Any

_ALIGNMENT = 64  # bytes: of an array in the memory, as onnxruntime's own
_HEAD = struct.Struct("<QQ")  # bytes of the pickle, number of arrays
_GROWTH = 1 << 20  # bytes


def shared_file() -> int:
    """A file descriptor of memory that another process may inherit."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("kvjobs-stage")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


class SharedFrames:
    """One side of the connection."""

    def __init__(self, connection: socket.socket, written: int, read: int) -> None:
        """`written` and `read`: file descriptors of `shared_file`, which are the other's `read` and `written`."""
        self._connection = connection
        self._written, self._read = _Memory(written), _Memory(read)

    def send(self, value: Any) -> None:
        """Send a value. Raises OSError where the other side has ended."""
        arrays: list[pickle.PickleBuffer] = []
        head = pickle.dumps(value, protocol=5, buffer_callback=arrays.append)
        views = [array.raw() for array in arrays]
        sizes = [view.nbytes for view in views]
        memory = self._written.at_least(sum(_aligned(size) for size in sizes))
        offset = 0
        for view, size in zip(views, sizes, strict=True):
            memory[offset : offset + size] = view
            offset += _aligned(size)
        self._connection.sendall(_HEAD.pack(len(head), len(sizes)) + struct.pack(f"<{len(sizes)}Q", *sizes) + head)

    def receive(self, *, copies: bool) -> Any:
        """The next value. Without `copies`, its arrays lie in the shared memory, where the next frame overwrites them.
        Raises EOFError or OSError where the other side has ended."""
        length, count = _HEAD.unpack(self._exactly(_HEAD.size))
        sizes = struct.unpack(f"<{count}Q", self._exactly(8 * count))
        head = self._exactly(length)
        memory, offset = self._read.at_least(sum(_aligned(size) for size in sizes)), 0
        arrays: list[Any] = []
        for size in sizes:
            view = memory[offset : offset + size]
            arrays.append(bytearray(view) if copies else view)
            offset += _aligned(size)
        return pickle.loads(head, buffers=arrays)

    def close(self) -> None:
        """Close the socket. The memory is freed with the last array in it."""
        self._connection.close()

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            chunk = self._connection.recv(size - len(data))
            if not chunk:
                raise EOFError("the other process has closed the connection")
            data += chunk
        return bytes(data)


class _Memory:
    """A shared file, mapped as far as it is needed."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._view = memoryview(b"")

    def at_least(self, size: int) -> memoryview:
        """A view of the first `size` bytes or more. The writing side lengthens the file before it announces a frame."""
        if size > len(self._view):
            size = -(-size // _GROWTH) * _GROWTH
            if os.fstat(self._descriptor).st_size < size:
                os.ftruncate(self._descriptor, size)
            self._view = memoryview(mmap.mmap(self._descriptor, size))
        return self._view

    def __del__(self) -> None:
        os.close(self._descriptor)


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT
