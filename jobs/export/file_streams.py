"""The files of a job in pieces, for a pipe or a browser: one, or a zip archive of all, which needs no disk."""

import io
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

from jobs.corpus.translatable.stored_reading import reading_of_files
from jobs.errors import NotFoundError, SpecError
from jobs.export.export_options import Export
from jobs.export.translated_files import Report, WrittenFile, check_is_files, written_files
from jobs.store.database import Database
from jobs.store.report.job_summary import JobSummary


def content_stream(
    database: Database, job: JobSummary, export: Export, *, tell: Callable[[str], None], to_terminal: bool
) -> Iterator[bytes]:
    """The one file of a job, or a zip archive of its files, in pieces; an empty one in front and at the end. Raises
    SpecError, before the first piece, for an archive that would go to a terminal."""
    found = reading_of_files(job.reading)
    report = Report(tell)
    if found is not None and found.is_one:
        [file] = written_files(database, job, export)
        report.add(file)
        yield b""
        yield _content(file)
    else:
        check_is_files(job, export)
        if to_terminal:
            raise SpecError("the files would be a zip archive, which is no text for a terminal; name a folder with -o")
        yield b""
        written = _Written()
        with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as target:
            for file in written_files(database, job, export):
                report.add(file)
                if not file.is_left_out:
                    # The time of an entry is fixed, so that the same files are the same bytes.
                    target.writestr(zipfile.ZipInfo(file.path), file.content, zipfile.ZIP_DEFLATED)
                    yield written.taken()
        yield written.taken()
    report.end()
    yield b""


def one_file(database: Database, job: JobSummary, path: str) -> bytes:
    """One file of a job, with the translations that there are. Raises NotFoundError for a path that the job lacks,
    SpecError for a file whose bytes nobody has."""
    file = next(written_files(database, job, Export(), path=path), None)
    if file is None:
        raise NotFoundError(f"job {job.label} has no file {path!r}")
    return _content(file)


def _content(file: WrittenFile) -> bytes:
    if file.is_left_out:
        raise SpecError(f"{file.path} {file.problem}; submit it again, or put the file back")
    return file.content


class _Written(io.RawIOBase):
    """A file that can only be written, whose bytes are taken out as they come."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        self._parts.append(bytes(data))
        return len(self._parts[-1])

    def taken(self) -> bytes:
        """What was written since the last time."""
        found = b"".join(self._parts)
        self._parts.clear()
        return found
