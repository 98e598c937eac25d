"""
The files that hold the weights of an ONNX graph, where they are outside of it: onnxruntime reads them under the names
that the graph gives, whatever these are.

Knows: the few fields of ModelProto, GraphProto and TensorProto that name them (onnx.proto). Needs only the standard
library: the stamps of a model are looked at before each batch.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from worker.models.protobuf_fields import FieldSpan, fields_of

_GRAPH = 7  # of ModelProto
_NODE, _INITIALIZER = 1, 5  # of GraphProto
# A tensor with external data is its name, its shape and a few short entries; a larger one holds its data itself.
_MAX_REFERENCE = 1 << 16
# The entry {key: "location", value: ...} of TensorProto.external_data: key (1) and value (2), with their lengths.
_LOCATION = re.compile(rb"\x0a\x08location\x12([\x01-\x7f])|\x0a\x08location\x12([\x80-\xff][\x01-\x7f])", re.DOTALL)


def external_files(graph: Path) -> list[Path]:
    """The existing files that a graph names as the place of its weights; none outside of its folder, which onnxruntime
    refuses. Empty for what is no graph. The graph is read again only when it has changed."""
    try:
        status = graph.stat()
        names = _locations(graph, (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns))
    except OSError:
        return []
    return [file for name in names if (file := graph.parent / name).is_file()]


@lru_cache(maxsize=1024)
def _locations(graph: Path, stamp: tuple[int, ...]) -> tuple[str, ...]:
    """The files that a graph names, as relative paths. `stamp`: of the graph, so that a changed graph is read again."""
    with graph.open("rb") as content:
        try:
            found = set(_named(content))
        except ValueError:  # no protobuf, or cut short: onnxruntime says so
            return ()
    return tuple(sorted(name for name in found if _is_inside(name)))


def _named(content: BinaryIO) -> Iterator[str]:
    for number, graph in fields_of(content):
        if number != _GRAPH or not isinstance(graph, FieldSpan):
            continue
        for inner, part in fields_of(content, graph):
            if not isinstance(part, FieldSpan):
                continue
            # Nodes, too: the graphs of their branches have initializers of their own.
            if inner == _NODE or (inner == _INITIALIZER and part.stop - part.start < _MAX_REFERENCE):
                yield from _in_message(part.read(content))


def _in_message(message: bytes) -> Iterator[str]:
    for match in _LOCATION.finditer(message):
        short, long = match.groups()
        length = short[0] if short else (long[0] & 0x7F) | long[1] << 7
        yield message[match.end() : match.end() + length].decode(errors="replace")


def _is_inside(name: str) -> bool:
    path = PurePosixPath(name)
    return "\0" not in name and not path.is_absolute() and ".." not in path.parts
