"""
The fields of a protobuf message in a file, found without reading their content: messages may be larger than memory.

Knows: the wire format. Does not know: what a field is for. Needs only the standard library.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO


@dataclass(frozen=True, slots=True)
class FieldSpan:
    """The place of a field's content in a file."""

    start: int
    stop: int

    def read(self, content: BinaryIO) -> bytes:
        content.seek(self.start)
        return content.read(self.stop - self.start)


def fields_of(content: BinaryIO, span: FieldSpan | None = None) -> Iterator[tuple[int, int | FieldSpan]]:
    """Number and content of each field of a message: the whole file, or a span of it.

    Raises ValueError where it is not protobuf, or ends too early.
    """
    span = span or FieldSpan(0, content.seek(0, os.SEEK_END))
    at = span.start
    while at < span.stop:
        content.seek(at)
        key = _varint(content)
        value: int | FieldSpan = 0
        match key & 7:
            case 0:  # a number
                value = _varint(content)
                at = content.tell()
            case 1 | 5 as kind:  # 8 or 4 bytes, which no field here has
                at = content.tell() + (8 if kind == 1 else 4)
            case 2:  # bytes, text, a message
                length = _varint(content)
                value = FieldSpan(content.tell(), content.tell() + length)
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
