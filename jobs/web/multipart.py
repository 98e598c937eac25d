"""A form with a file, read as it comes: the file is written to disk piece by piece, the other fields are texts.

RFC 7578. (Starlette's own reader copies a file to the folder of temporary files of the machine.)
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field

from python_multipart.exceptions import MultipartParseError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import Request

from jobs.errors import SpecError

FORM = "multipart/form-data"
MOST_TEXT = 64 * 1024  # bytes of all fields but the file
MOST_FIELDS = 200
BROKEN = "the form cannot be read; send it anew as multipart/form-data"


@dataclass(slots=True)
class FileForm:
    """The fields of a form besides its file; they are complete once all pieces of the file were read."""

    file_field: str  # whose value is the file
    file_name: str | None = None  # as the sender calls it; None: the form has no file
    texts: dict[str, list[str]] = field(default_factory=dict)  # by field, a text for each time that it is given

    def text(self, name: str) -> str:
        """The only text of a field; empty where it is not there."""
        return self.texts.get(name, [""])[-1]


def is_form(request: Request) -> bool:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower() == FORM


async def pieces_of_file(request: Request, form: FileForm) -> AsyncIterator[bytes]:
    """The bytes of the form's file as they come; fills `form`. Raises SpecError for a body that is no such form, or
    that ends in the middle."""
    _, options = parse_options_header(request.headers.get("content-type", ""))
    if not is_form(request) or not options.get(b"boundary"):
        raise SpecError(BROKEN)
    parts = _Parts(form)
    try:
        parser = MultipartParser(options[b"boundary"], parts.callbacks())  # type: ignore[arg-type]  # a TypedDict of its own
        async for chunk in request.stream():
            parser.write(chunk)
            if parts.of_file:
                yield b"".join(parts.of_file)
                parts.of_file.clear()
        parser.finalize()
    except MultipartParseError:
        raise SpecError(BROKEN) from None
    if not parts.is_whole:
        raise SpecError("the form ended in the middle; send it again")


class _Parts:
    """What the parser calls."""

    def __init__(self, form: FileForm) -> None:
        self.form = form
        self.of_file: list[bytes] = []  # that were not taken yet
        self.is_whole = False
        self._header, self._value = b"", b""
        self._headers: dict[bytes, bytes] = {}
        self._name, self._is_file = "", False
        self._text = b""
        self._num_bytes = self._num_fields = 0

    def callbacks(self) -> Mapping[str, object]:
        return {
            "on_part_begin": self._begin,
            "on_header_field": self._header_field,
            "on_header_value": self._header_value,
            "on_header_end": self._header_end,
            "on_headers_finished": self._headers_finished,
            "on_part_data": self._data,
            "on_part_end": self._end,
            "on_end": self._whole,
        }

    def _begin(self) -> None:
        self._headers, self._text = {}, b""
        self._num_fields += 1
        if self._num_fields > MOST_FIELDS:
            raise SpecError(f"the form has more than {MOST_FIELDS} fields; leave some out")

    def _header_field(self, data: bytes, start: int, end: int) -> None:
        self._header += self._counted(data[start:end])

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += self._counted(data[start:end])

    def _header_end(self) -> None:
        self._headers[self._header.lower()] = self._value
        self._header, self._value = b"", b""

    def _headers_finished(self) -> None:
        _, options = parse_options_header(self._headers.get(b"content-disposition", b""))
        self._name = options.get(b"name", b"").decode(errors="replace")
        self._is_file = self._name == self.form.file_field and b"filename" in options
        if self._is_file:
            if self.form.file_name is not None:
                raise SpecError("the form has two files; send one")
            self.form.file_name = options[b"filename"].decode(errors="replace")

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._is_file:
            self.of_file.append(data[start:end])
        else:
            self._text += self._counted(data[start:end])

    def _end(self) -> None:
        if not self._is_file:
            self.form.texts.setdefault(self._name, []).append(self._text.decode(errors="replace"))

    def _whole(self) -> None:
        self.is_whole = True

    def _counted(self, data: bytes) -> bytes:
        self._num_bytes += len(data)
        if self._num_bytes > MOST_TEXT:
            raise SpecError(f"the fields of the form have more than {MOST_TEXT // 1024} KiB; shorten them")
        return data
