"""The units of translated files as documents.

    ui/app.properties#greeting    {"file": "ui/app.properties", "unit": "greeting", "context": ..., "max_chars": ...}

A file that cannot be read is one rejected document, whose id is its name; the others go on. Unit N of a file is the
document at the position of its first one + N, so that an export finds its translations.

Knows: files and their units. Does not know: tables.
"""

import hashlib
import json
import os
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jobs.corpus.folder import CorpusFile
from jobs.corpus.unpacking import CHUNK_BYTES, Contents, naming
from jobs.documents import MAX_ID_BYTES, Document, Record, Reject, Rejected, check_record
from jobs.errors import CorpusError
from jobs.files.formats import format_of, suffix_of
from jobs.files.translatable import ForeignFile, Markup, TranslatableFile, Unit
from jobs.tasks.document_options import own_json
from jobs.text.formatting import size

MAX_FILE_BYTES = 1 << 26  # of a file that is translated: it is held in memory as a whole
MOST_OF_NAME = 1200  # bytes of the name of a unit in an id; a longer one ends in its digest


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitReading:
    """What a format is told besides the bytes of a file."""

    again: bool = False  # units that have a translation in the file, too
    target_language: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFile:
    """A file of the corpus, and where its units are among the documents."""

    file: CorpusFile
    digest: str  # sha256
    num_bytes: int
    is_translated: bool  # else it is copied as it is
    first: int = 0  # position of its first document
    documents: int = 0
    error: str | None = None  # why it cannot be read: its one document is a rejected one; or why it is copied


class UnitReader:
    """The records of translated files; each iteration reads from the start, and the files only then."""

    def __init__(self, source: str, files: Sequence[CorpusFile], how: UnitReading, line_limit: int) -> None:
        """Raises SpecError where the package for a format is missing."""
        for file in files:
            if suffix_of(file.name):
                format_of(file.name)
        self.source = source
        self._how, self._line_limit = how, line_limit
        self._hashed = [_hashed(file) for file in files]
        self.files: list[ReadFile] = []  # that were read, as the last iteration found them
        self.bytes_read = self.lines_read = 0

    @property
    def contents(self) -> Contents:
        """What the files held when the reader was made."""
        return Contents(_digest_of_all(self._hashed), sum(file.num_bytes for file in self._hashed))

    def __iter__(self) -> Iterator[Record]:
        self.files, self.bytes_read, self.lines_read = [], 0, 0
        position = 0
        for hashed in self._hashed:
            first = position
            error = None
            is_translated = hashed.is_translated
            if is_translated:
                content = content_of(hashed.file)
                digest = hashlib.sha256(content).hexdigest()
                try:
                    units, error = self._units(hashed.file, content)
                except ForeignFile as foreign:
                    is_translated, units, error = False, (), str(foreign)
                if error is None or not is_translated:
                    for unit in units:
                        yield self._document(hashed.file.name, unit, position)
                        position += 1
                else:
                    yield _broken(hashed.file.name, position, error)
                    position += 1
            else:
                digest = hashed.digest
            self.bytes_read += hashed.num_bytes
            self.lines_read = position
            self.files.append(
                ReadFile(
                    file=hashed.file,
                    digest=digest,
                    num_bytes=hashed.num_bytes,
                    is_translated=is_translated,
                    first=first,
                    documents=position - first,
                    error=error,
                )
            )
        if not position:
            why = next((f" ({file.error})" for file in self.files if file.error), "")
            raise CorpusError(
                f"{self.source}: there is no text to translate in it{why}; is it the right file or folder?"
            )

    def digest(self) -> str:
        """The digest of all files, with those that are translated as the iteration read them."""
        return _digest_of_all(self.files)

    def first_lines(self) -> list[bytes]:
        """None: there are no lines."""
        return []

    def line_name(self, line: int) -> str:
        """The unit at this place, as in "unit 7 of ui/app.properties"."""
        files = [file for file in self.files if file.documents]
        index = bisect_right(files, line - 1, key=lambda file: file.first) - 1
        if index < 0 or line > files[index].first + files[index].documents:
            return f"unit {line}"  # of the file that is being read
        return f"unit {line - files[index].first} of {files[index].file.name}"

    def _units(self, file: CorpusFile, content: bytes) -> tuple[Sequence[Unit], str | None]:
        try:
            if len(content) > MAX_FILE_BYTES:
                raise CorpusError(f"it has {size(len(content))}, and at most {size(MAX_FILE_BYTES)} are read; cut it")
            return texts_of(read_file(file.name, content, self._how)), None
        except ForeignFile:
            raise
        except CorpusError as error:
            return (), str(error)

    def _document(self, name: str, unit: Unit, position: int) -> Record:
        line = position + 1
        fields: dict[str, object] = {"file": name, "unit": _storable(unit.name)}
        if unit.context is not None:
            fields["context"] = _storable(unit.context)
        if unit.max_chars is not None:
            fields["max_chars"] = unit.max_chars
        unit_id = id_of(name, unit)
        try:
            num_bytes = len(unit.text.encode())
        except UnicodeEncodeError:
            reason = f"{name}: the text of {_storable(unit.name)} has half of a pair of surrogates; mend it"
            return _rejected(position, unit_id, Reject.LONE_SURROGATE, reason, fields)
        if num_bytes > self._line_limit:
            reason = f"the text has {size(num_bytes)}, and at most {size(self._line_limit)} are read (--max-text)"
            return _rejected(position, unit_id, Reject.TOO_LONG, reason, fields)
        record = check_record(position, line, unit_id, unit.text, fields, "text")
        if type(record) is Document:
            return record._replace(own_options=_own_options(unit))
        return record


def _own_options(unit: Unit) -> str | None:
    own: dict[str, object] = {} if unit.markup is Markup.NONE else {"markup": unit.markup.value}
    return own_json(own if unit.max_chars is None else own | {"max_chars": unit.max_chars})


def read_file(name: str, content: bytes, how: UnitReading) -> TranslatableFile:
    """A file by the format of its name. Raises CorpusError for one that is broken."""
    return format_of(name).read(content, again=how.again, target_language=how.target_language)


def texts_of(file: TranslatableFile) -> list[Unit]:
    """The units that are documents: those that are not blank."""
    return [unit for unit in file.units if unit.text.strip()]


def id_of(name: str, unit: Unit) -> str:
    """The id of a unit's document. A database indexes ids, so that of a long name is shortened."""
    full = _storable(f"{name}#{unit.name}")
    if len(full.encode()) <= MAX_ID_BYTES:
        return full
    digest = hashlib.sha256(full.encode()).hexdigest()[:16]
    return f"{full.encode()[:MOST_OF_NAME].decode('utf-8', 'ignore')}…{digest}"


def content_of(file: CorpusFile) -> bytes:
    """The bytes of a file, one byte more than the most where there are more. A link is not followed. Raises
    CorpusError."""
    with naming(str(file)), os.fdopen(os.open(file.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as raw:
        return raw.read(MAX_FILE_BYTES + 1)


def _hashed(file: CorpusFile) -> ReadFile:
    sha256, num_bytes = hashlib.sha256(), 0
    is_translated = suffix_of(file.name) is not None
    with naming(str(file)), os.fdopen(os.open(file.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as raw:
        while chunk := raw.read(min(CHUNK_BYTES, MAX_FILE_BYTES + 1 - num_bytes) if is_translated else CHUNK_BYTES):
            sha256.update(chunk)
            num_bytes += len(chunk)
    return ReadFile(file=file, digest=sha256.hexdigest(), num_bytes=num_bytes, is_translated=is_translated)


def _digest_of_all(files: Sequence[ReadFile]) -> str:
    """sha256 over the names and the digests of all files: a unit's id has the name of its file."""
    lines = [json.dumps([file.file.name, file.digest]) for file in files]
    return hashlib.sha256("\n".join(["translated files", *lines]).encode()).hexdigest()


def _broken(name: str, position: int, error: str) -> Rejected:
    return _rejected(position, name, Reject.BAD_FILE, f"{name} cannot be read: {error}", {"file": name})


def _rejected(position: int, unit_id: str, code: Reject, reason: str, fields: dict[str, object]) -> Rejected:
    return Rejected(position, unit_id, False, position + 1, code, reason, fields=json.dumps(fields, ensure_ascii=False))


def _storable(text: str) -> str:
    """The text without what a database cannot hold: NUL, and halves of pairs of surrogates."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
