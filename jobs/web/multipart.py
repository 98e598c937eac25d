"""A form with files, read as it comes: they are written to disk piece by piece, the other fields are texts.

RFC 7578. (Starlette's own reader copies a file to the folder of temporary files of the machine.)
"""

import enum
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import Request

from jobs.errors import SpecError
from jobs.operations.received_corpus import SentFile
from jobs.text.formatting import size

FORM = "multipart/form-data"
LONGEST_HEAD = 2048  # bytes of the head of a file's part
BROKEN = "the form cannot be read; send it anew as multipart/form-data"


class FormProblem(enum.Enum):
    """What is wrong with a form."""

    NO_FORM = enum.auto()
    UNREADABLE = enum.auto()
    INCOMPLETE = enum.auto()
    MANY_FIELDS = enum.auto()
    LONG_FIELDS = enum.auto()
    MANY_FILES = enum.auto()


class BrokenForm(SpecError):
    """A body that is not the form that was asked for."""

    def __init__(self, message: str, problem: FormProblem = FormProblem.UNREADABLE) -> None:
        super().__init__(message)
        self.problem = problem


@dataclass(slots=True)
class FileForm:
    """The fields of a form, and which files it has; complete once all pieces of the files were read. A field for a file
    that nobody chose is left out."""

    file_fields: tuple[str, ...] = ()  # whose values are files; none: any that has the name of a file
    most_files: int = 1
    most_fields: int = 200  # but files
    most_text: int = 64 * 1024  # bytes of all fields but files, with the heads of all
    files: list[SentFile] = field(default_factory=list)  # in their order; their bytes come one behind the other
    texts: dict[str, list[str]] = field(default_factory=dict)  # by field, a text for each time that it is given

    @property
    def file_name(self) -> str | None:
        """The name of the first file, as the sender calls it; None: the form has no file."""
        return self.files[0].name if self.files else None

    def text(self, name: str) -> str:
        """The only text of a field; empty where it is not there."""
        return self.texts.get(name, [""])[-1]


def is_form(request: Request) -> bool:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower() == FORM


async def pieces_of_files(request: Request, form: FileForm) -> AsyncIterator[bytes]:
    """The bytes of the form's files as they come; fills `form`. Raises BrokenForm for a body that is no such form, or
    that ends in the middle."""
    _, options = parse_options_header(request.headers.get("content-type", ""))
    if not is_form(request) or not options.get(b"boundary"):
        raise BrokenForm(BROKEN, FormProblem.NO_FORM)
    parts = _Parts(form)
    try:
        parser = MultipartParser(options[b"boundary"], parts.callbacks())  # type: ignore[arg-type]  # a TypedDict of its own
        async for chunk in request.stream():
            parser.write(chunk)
            if parts.of_file:
                yield b"".join(parts.of_file)
                parts.of_file.clear()
        parser.finalize()
    except FormParserError:
        raise BrokenForm(BROKEN) from None
    if not parts.is_whole:
        raise BrokenForm("the form ended in the middle; send it again", FormProblem.INCOMPLETE)


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
        most = self.form.most_fields + self.form.most_files
        if self._num_fields > most:
            raise BrokenForm(f"the form has more than {most} fields; leave some out", FormProblem.MANY_FIELDS)

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
        self._is_file = self._name in (self.form.file_fields or (self._name,)) and b"filename" in options
        if self._is_file:
            self.form.files.append(SentFile(options[b"filename"].decode(errors="replace")))
            if len(self.form.files) > self.form.most_files:
                most = self.form.most_files
                few = "two files; send one" if most == 1 else f"more than {most:,} files; send them in parts"
                raise BrokenForm(f"the form has {few}", FormProblem.MANY_FILES)

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._is_file:
            self.of_file.append(data[start:end])
            self.form.files[-1].num_bytes += end - start
        else:
            self._text += self._counted(data[start:end])

    def _end(self) -> None:
        if self._is_file:
            if self.form.files[-1] == SentFile(""):  # nobody has chosen one
                self.form.files.pop()
        else:
            self.form.texts.setdefault(self._name, []).append(self._text.decode(errors="replace"))

    def _whole(self) -> None:
        self.is_whole = True

    def _counted(self, data: bytes) -> bytes:
        self._num_bytes += len(data)
        if self._num_bytes > self.form.most_text + LONGEST_HEAD * len(self.form.files):
            raise BrokenForm(
                f"the fields of the form have more than {size(self.form.most_text)}; shorten them",
                FormProblem.LONG_FIELDS,
            )
        return data
