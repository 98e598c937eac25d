"""Files that come back translated, as a program names them: copied to one folder, or packed for a server."""

import os
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from jobs.corpus.corpus_format import SUFFIXES, Format
from jobs.corpus.folder import CorpusFile
from jobs.corpus.translatable.file_list import find_translatable
from jobs.corpus.translatable.received_files import ReceivedFiles
from jobs.corpus.unpacking import naming
from jobs.errors import CorpusError, KvjobsError
from jobs.operations.received_corpus import PREFIX
from jobs.system.temporary_folder import temporary_folder

PIECE = 1 << 20
ARCHIVE = "files.zip"


@dataclass(frozen=True, slots=True)
class Packed:
    """Files as they are sent: one, or an archive of several."""

    name: str
    content: IO[bytes]


@contextmanager
def gathered(paths: Sequence[Path], spool: Path) -> Iterator[Path]:
    """A folder with copies of files and folders, under their names below the folder that all lie in, for as long as the
    block lasts. Raises CorpusError for a path that is not there, KvjobsError where the disk refuses."""
    common = os.path.commonpath([path.absolute().parent for path in paths])
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(temporary_folder(spool, PREFIX))
        except OSError as error:
            raise KvjobsError(f"files cannot be copied to {spool}: {error.strerror}; set KVJOBS_HOME") from None
        received = ReceivedFiles(folder)
        for path in paths:
            below = os.path.relpath(path.absolute().parent if path.is_file() else path.absolute(), common)
            for file in _files_at(path):
                name = os.path.normpath(os.path.join(below, file.name))
                with naming(str(file)), file.path.open("rb") as content:
                    received.add(name, os.fstat(content.fileno()).st_size, iter(partial(content.read, PIECE), b""))
        yield folder


@contextmanager
def packed(path: str, form: str | None, spool: Path) -> Iterator[Packed | None]:
    """The files of a path, if it is of files that come back translated; None where it is of documents. `form`: the
    format that was asked for."""
    found = None
    if form in (None, Format.FILES):
        with naming(path):
            found = find_translatable(path, is_asked=form == Format.FILES, documents=tuple(SUFFIXES))
    if found is None:
        yield None
    elif os.path.isfile(path):
        with naming(path), found[0].path.open("rb") as content:
            yield Packed(found[0].name, content)
    else:
        with TemporaryFile(dir=spool) as archive:
            with naming(path), zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as target:
                for file in found:
                    target.write(file.path, file.name)
            archive.seek(0)
            yield Packed(ARCHIVE, archive)


def _files_at(path: Path) -> Sequence[CorpusFile]:
    if path.is_file():
        return [CorpusFile(path, path.name)]
    if not path.is_dir():
        raise CorpusError(f"{path}: there is no such file or folder; check the path")
    with naming(str(path)):
        return find_translatable(os.fspath(path), is_asked=True, documents=()) or ()
