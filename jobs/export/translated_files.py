"""`kvjobs export --format files`: the files of the corpus with their translations in them, and the others as they are.

A unit without a translation keeps its text. Each file appears when it is complete, or stays what it was.
"""

import hashlib
import os
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from jobs.addresses.address import is_address
from jobs.choices import Only
from jobs.corpus.corpus import STREAMS
from jobs.corpus.folder import folder_of
from jobs.corpus.translatable.reader import MAX_FILE_BYTES, UnitReading, id_of, read_file, texts_of
from jobs.corpus.translatable.stored_reading import reading_of_files
from jobs.errors import CorpusError, SpecError, StoreError
from jobs.export.export_options import Export
from jobs.export.replaced_file import replaced_file
from jobs.export.result_columns import shape_of
from jobs.files.translatable import TranslatableFile
from jobs.store import job_files
from jobs.store.database import Database
from jobs.store.job_files import StoredFile
from jobs.store.report.documents.export import ExportedDocument, read_documents
from jobs.store.report.job_summary import JobSummary
from jobs.system.failpoints import failpoint
from jobs.text.formatting import counted, size

MOST_NAMED = 20  # files of which something is said


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file as it is written."""

    path: str
    content: bytes
    units: int
    translated: int  # units that have a translation
    problem: str | None = None  # what the reader of the export should know
    is_left_out: bool = False  # nobody has its bytes


def write_folder(
    database: Database, job: JobSummary, folder: Path, export: Export, *, tell: Callable[[str], None]
) -> int:
    """Write the files of a job below a folder, which is made; the number of units that are translated. Raises SpecError
    for a folder in which a file of the corpus would be overwritten, StoreError if the disk refuses."""
    check_folder(folder, job.source)
    corpus = Path(os.path.realpath(job.source))
    translated = 0
    report = Report(tell)
    try:
        for file in written_files(database, job, export):
            translated += file.translated
            report.add(file)
            if not file.is_left_out:
                _write(folder, file.path, file.content, corpus)
    except OSError as error:
        raise StoreError(f"{error.filename or folder} cannot be written: {error.strerror}") from None
    report.end()
    return translated


def unpack_folder(archive: BinaryIO, folder: Path, source: str) -> None:
    """Write the files of an archive of `file_streams.content_stream` below a folder, as `write_folder` does."""
    check_folder(folder, source)
    try:
        with zipfile.ZipFile(archive) as found:
            for entry in found.infolist():
                _write(folder, entry.filename, found.read(entry), Path(os.path.realpath(source)))
    except OSError as error:
        raise StoreError(f"{error.filename or folder} cannot be written: {error.strerror}") from None


def check_folder(folder: Path, source: str) -> None:
    """Raise SpecError for a folder that files cannot be written to, or that is the corpus or a part of it."""
    if folder.exists() and not folder.is_dir():
        raise SpecError(f"{folder} is a file, and the corpus is a folder; name another folder")
    real, corpus = Path(os.path.realpath(folder)), Path(os.path.realpath(source))
    if real == corpus or (corpus.is_dir() and real.is_relative_to(corpus)):
        raise SpecError(f"{folder} is a folder of the corpus {source}, which must not be overwritten; name another")


def check_is_files(job: JobSummary, export: Export) -> UnitReading:
    """How the files of a job were read. Raises SpecError for a job of another corpus or task."""
    found = reading_of_files(job.reading)
    if found is None:
        raise SpecError(f"the corpus of job {job.label} is not of files that come back; choose another --format")
    if not job.kind.is_between_languages:
        raise SpecError(f"job {job.label} does not translate, so its files have nothing new; choose another --format")
    if export.only is not None:
        raise SpecError("--only has no meaning for files, in which each unit has its place; leave it out")
    return found.units


def written_files(
    database: Database, job: JobSummary, export: Export, *, path: str | None = None
) -> Iterator[WrittenFile]:
    """The files of a job as they are written, in the order of the corpus; with `path` this one alone. Raises SpecError
    where a file that is needed is neither stored nor lies where it was as it was."""
    how = check_is_files(job, export)
    of_job = job.chain or job.job_id
    with database.reading() as connection:
        files = job_files.files_of(connection, of_job, path)
    documents = _Documents(database, job, export, files[0].first if files else 0)
    translation_of = shape_of(job).as_text
    for file in files:
        content = _content(database, of_job, job.source, file)
        found = documents.at(file.first, file.first + file.documents) if file.translated else []
        if content is None:
            problem = f"is not at {job.source} as it was submitted, and is left out"
            if _is_elsewhere(job.source):
                problem = f"has more than {size(MAX_FILE_BYTES)}, which is not kept, and is left out"
            yield WrittenFile(file.path, b"", 0, 0, problem, is_left_out=True)
        elif file.error is not None or not file.translated:
            yield WrittenFile(file.path, content, 0, 0, file.error and _why_copied(file))
        else:
            translations = [None if document is None else translation_of(document.result) for document in found]
            yield _translated(file, content, how, found, translations)


def _why_copied(file: StoredFile) -> str:
    return "is copied as it is, since it cannot be read" if file.translated else f"is copied as it is: {file.error}"


def _translated(
    file: StoredFile,
    content: bytes,
    how: UnitReading,
    documents: Sequence[ExportedDocument | None],
    translations: Sequence[str | None],
) -> WrittenFile:
    try:
        read = read_file(file.path, content, how)
    except CorpusError as error:
        raise SpecError(f"{file.path} was read when it was submitted, and cannot be read now: {error}") from None
    units = texts_of(read)
    known = [document for document in documents if document is not None]
    same = len(units) == file.documents and all(
        document is None or document.external_id == id_of(file.path, unit)
        for unit, document in zip(units, documents, strict=True)
    )
    if not same:
        raise SpecError(
            f"{file.path} was read into other units by the version of kvjobs that submitted it; submit it again"
        )
    by_unit = iter(translations)
    texts = [next(by_unit) if unit.text.strip() else None for unit in read.units]
    refused: dict[int, str] = {}
    try:
        written = read.write(texts, how.target_language)
    except SpecError:
        refused = _refused(read, texts, how.target_language)
        texts = [None if number in refused else text for number, text in enumerate(texts)]
        written = read.write(texts, how.target_language)
    problem = _problem(len(units), texts, known, refused)
    return WrittenFile(file.path, written, len(units), sum(text is not None for text in texts), problem)


def _refused(read: TranslatableFile, texts: Sequence[str | None], language: str | None) -> dict[int, str]:
    """The numbers of the units whose translation the format cannot hold, and why: half of them are tried at a time."""
    refused: dict[int, str] = {}

    def look(start: int, stop: int) -> None:
        some = [text if start <= number < stop else None for number, text in enumerate(texts)]
        try:
            read.write(some, language)
        except SpecError as error:
            if stop - start == 1:
                refused[start] = str(error)
                return
            middle = (start + stop) // 2
            look(start, middle)
            look(middle, stop)

    look(0, len(texts))
    return refused


def _problem(
    units: int, texts: Sequence[str | None], documents: Sequence[ExportedDocument], refused: dict[int, str]
) -> str | None:
    kept = units - sum(text is not None for text in texts)
    if not kept:
        return None
    counts: dict[str, int] = {}
    for document in documents:
        if not document.result:
            counts[document.status] = counts.get(document.status, 0) + 1
    if refused:
        counts["refused by the format"] = len(refused)
    if (others := kept - sum(counts.values())) > 0:
        counts["not chosen"] = others
    why = ", ".join(f"{number:,} {name}" for name, number in sorted(counts.items()))
    first = f"; {next(iter(refused.values()))}" if refused else ""
    return f"keeps the text of {counted(kept, 'unit')} of {units:,} ({why}{first})"


class _Documents:
    """The documents of a job, asked for in the order of their positions."""

    def __init__(self, database: Database, job: JobSummary, export: Export, start: int) -> None:
        self._found = read_documents(database, job.job_id, only=Only.ALL, condition=export.condition, start=start)
        self._next = next(self._found, None)

    def at(self, start: int, stop: int) -> list[ExportedDocument | None]:
        """Those at these positions; None where there is none that was chosen."""
        found: list[ExportedDocument | None] = [None] * (stop - start)
        while self._next is not None and self._next.position < stop:
            if self._next.position >= start:
                found[self._next.position - start] = self._next
            self._next = next(self._found, None)
        return found


def _content(database: Database, job_id: int, source: str, file: StoredFile) -> bytes | None:
    """The bytes of a file as it was submitted; None where nobody has them."""
    with database.reading() as connection:
        content = job_files.content_of(connection, job_id, file.number)
    if content is not None or _is_elsewhere(source):
        return content
    try:
        found = _whole(Path(source) if os.path.isfile(source) else Path(folder_of(source), file.path))
    except OSError:
        return None
    return found if hashlib.sha256(found).hexdigest() == file.digest else None


def _is_elsewhere(source: str) -> bool:
    """Whether all files that an export may have are stored: nobody reads an address again, or what was sent."""
    return is_address(source) or source in STREAMS


def _whole(path: Path) -> bytes:
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as raw:
        return raw.read()


def _write(folder: Path, name: str, content: bytes, corpus: Path) -> None:
    target = _made_target(folder, name)
    if Path(os.path.realpath(target)).is_relative_to(corpus):
        raise SpecError(f"{target} is a file of the corpus, which must not be overwritten; name another folder")
    with replaced_file(target) as file:
        file.write(content)
        failpoint("in-written-file")
    failpoint("after-written-file")


def _made_target(folder: Path, name: str) -> Path:
    """Where a file is written; the folders above it are made. A link below the folder is not followed."""
    *parents, last = name.split("/")
    if ".." in (*parents, last) or name.startswith("/"):
        raise SpecError(f"the file {name} would lie outside of {folder}")
    here = folder
    here.mkdir(parents=True, exist_ok=True)
    for parent in parents:
        here = here / parent
        here.mkdir(exist_ok=True)
        if here.is_symlink():
            raise SpecError(f"{here} is a link to another folder; take it away, or name another folder with -o")
    return folder / name


class Report:
    """Says what is to be known of the first files."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._named = self._others = 0

    def add(self, file: WrittenFile) -> None:
        if file.problem is None:
            return
        if self._named < MOST_NAMED:
            self._tell(f"{file.path} {file.problem}.")
            self._named += 1
        else:
            self._others += 1

    def end(self) -> None:
        if self._others:
            self._tell(f"So it is with {counted(self._others, 'more file')}.")
