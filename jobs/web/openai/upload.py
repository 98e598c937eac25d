"""A file that comes as multipart/form-data, written to the disk as it comes.

Memory holds a chunk of it, however long it is; what is not whole at the end is deleted.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import BinaryIO

import anyio
from fastapi import Request
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from jobs.documents import quoted
from jobs.operations.upload_folder import UploadFolder, refusing
from jobs.web.openai.requests import ApiError

FIELDS = ("purpose", "expires_after[anchor]", "expires_after[seconds]")
MOST_PARTS = 10
LONGEST_FIELD = 1024  # bytes
LONGEST_NAME = 255  # characters of the name of a file that are kept


@dataclass(slots=True)
class Form:
    """The parts of the form that have come so far."""

    values: dict[str, str] = field(default_factory=dict)
    filename: str | None = None  # None: no file came
    num_bytes: int = 0  # of the file
    is_whole: bool = False
    chunk: list[bytes] = field(default_factory=list)  # of the file, not yet written
    _name: str = ""
    _is_file: bool = False
    _parts: int = 0
    _header: tuple[bytearray, bytearray] = field(default_factory=lambda: (bytearray(), bytearray()))
    _disposition: bytes = b""
    _value: bytearray = field(default_factory=bytearray)

    @property
    def callbacks(self) -> dict[str, Callable[..., None]]:
        """What the parser calls."""
        return {
            "on_part_begin": self._begin,
            "on_header_field": lambda data, start, end: self._header[0].extend(data[start:end]),
            "on_header_value": lambda data, start, end: self._header[1].extend(data[start:end]),
            "on_header_end": self._end_header,
            "on_headers_finished": self._begin_body,
            "on_part_data": self._add,
            "on_part_end": self._end,
            "on_end": self._finish,
        }

    def _begin(self) -> None:
        self._parts += 1
        if self._parts > MOST_PARTS:
            raise ApiError(400, f"The form has more than {MOST_PARTS} parts.", None, "too_many_parts")
        self._disposition, self._value = b"", bytearray()

    def _end_header(self) -> None:
        name, value = self._header
        if name.lower() == b"content-disposition":
            self._disposition = bytes(value)
        self._header = (bytearray(), bytearray())

    def _begin_body(self) -> None:
        _, options = parse_options_header(self._disposition)
        self._name = options.get(b"name", b"").decode("utf-8", "replace")
        self._is_file = self._name == "file"
        if self._is_file:
            if self.filename is not None:
                raise ApiError(
                    400, "The form has two files; send each in a request of its own.", "file", "invalid_value"
                )
            self.filename = _plain_name(options.get(b"filename", b"").decode("utf-8", "replace"))
        elif self._name not in FIELDS:
            raise ApiError(400, f"Unknown parameter: {quoted(self._name)}.", self._name[:100], "unknown_parameter")

    def _add(self, data: bytes, start: int, end: int) -> None:
        if self._is_file:
            self.chunk.append(data[start:end])
            self.num_bytes += end - start
        else:
            self._value += data[start:end]
            if len(self._value) > LONGEST_FIELD:
                raise ApiError(
                    400, f"'{self._name}' is longer than {LONGEST_FIELD} bytes.", self._name, "invalid_value"
                )

    def _end(self) -> None:
        if not self._is_file:
            self.values[self._name] = self._value.decode("utf-8", "replace")

    def _finish(self) -> None:
        self.is_whole = True


async def receive_form(request: Request, folder: UploadFolder, file: BinaryIO) -> Form:
    """Write the file of a form, and return its other parts. Raises ApiError for a form that is none or is not whole,
    TransientError where the disk refuses, ClientDisconnect where the sender has gone."""
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    if kind != b"multipart/form-data" or b"boundary" not in options:
        raise ApiError(400, "Send the file as multipart/form-data, with its 'purpose'.", None, "invalid_content_type")
    form = Form()
    try:
        parser = MultipartParser(options[b"boundary"], form.callbacks)  # type: ignore[arg-type]  # more than it calls
        async for data in request.stream():
            if data:
                parser.write(data)
            if form.chunk:
                await anyio.to_thread.run_sync(_write, folder, file, form.chunk)
                form.chunk = []
        parser.finalize()
    except FormParserError as error:
        raise ApiError(400, f"The form cannot be read: {error}", None, "invalid_form") from None
    if not form.is_whole:
        raise ApiError(400, "The form ends too early; send the file again.", None, "incomplete_form")
    if form.filename is None:
        raise ApiError(400, "Missing required parameter: 'file'.", "file", "missing_required_parameter")
    return form


def _write(folder: UploadFolder, file: BinaryIO, parts: list[bytes]) -> None:
    with refusing(folder.path):
        for part in parts:
            left = memoryview(part)
            while left:
                left = left[file.write(left) :]


def _plain_name(given: str) -> str:
    """The name of a file, for people: without folders and what no terminal should get."""
    name = given.replace("\\", "/").rpartition("/")[2]
    return "".join(character for character in name if character.isprintable())[:LONGEST_NAME] or "file"
