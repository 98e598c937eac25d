"""Archives of files that somebody sends: unpacked within bounds, and refused where they are no plain folder of files.

Of an archive no more is held in memory than a piece at a time, and of a zip its directory.

Knows: zip and tar. Does not know: who sends them.
"""

import gzip
import io
import lzma
import stat
import struct
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, BinaryIO

from jobs.corpus.folder import printable
from jobs.corpus.translatable.received_files import (
    ARCHIVES,
    MOST_FILES,
    OTHER_ARCHIVES,
    ReceivedFiles,
    most_unpacked,
    not_written,
)
from jobs.documents import quoted
from jobs.errors import CorpusError
from jobs.text.formatting import size

PIECE = 1 << 16
LARGEST_READ = 4 << 20  # bytes at once: the directory of a zip of 10,000 files has 2 MB
MOST_ENTRIES = 2 * MOST_FILES  # folders are entries, too


def unpack(archive: BinaryIO, name: str, files: ReceivedFiles, spool: Path) -> None:
    """Put the files of an archive with this name into a folder. `archive` is at its start, and can be sought; a packed
    tar is unpacked to a file without a name in `spool` first.

    Raises CorpusError for an archive that is broken, out of proportion, or has what no folder of files has: links,
    devices, other archives, names that lead elsewhere.
    """
    with _naming(name):
        if name.lower().endswith(".zip"):
            _unpack_zip(archive, files)
        elif name.lower().endswith(".tar"):
            _unpack_tar(archive, files)
        else:
            with tempfile.TemporaryFile(dir=spool) as tar:
                _gunzip(archive, tar)
                tar.seek(0)
                _unpack_tar(tar, files)


def _unpack_zip(archive: BinaryIO, files: ReceivedFiles) -> None:
    with zipfile.ZipFile(_SmallReads(archive)) as opened:
        entries = opened.infolist()
        _check_number(len(entries))
        for entry in entries:
            _check_zip_entry(entry)
            if not entry.is_dir():
                with opened.open(entry) as content:
                    _add(files, entry.filename, entry.file_size, content)


def _check_zip_entry(entry: zipfile.ZipInfo) -> None:
    shown, kind = quoted(printable(entry.filename)), stat.S_IFMT(entry.external_attr >> 16)
    if entry.flag_bits & 1:
        raise CorpusError(f"{shown} is encrypted; pack it without a password")
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise CorpusError(f"{shown} is compressed in another way than deflate; pack it as usual")
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        _refuse_kind(shown, kind == stat.S_IFLNK)


def _unpack_tar(archive: BinaryIO, files: ReceivedFiles) -> None:
    with tarfile.open(fileobj=_SmallReads(archive), mode="r:") as opened:
        for number, entry in enumerate(opened, start=1):
            _check_number(number)
            if not (entry.isreg() or entry.isdir()):
                _refuse_kind(quoted(printable(entry.name)), entry.issym() or entry.islnk())
            if entry.isreg() and (content := opened.extractfile(entry)) is not None:
                _add(files, entry.name.removeprefix("./"), entry.size, content)


def _gunzip(packed: BinaryIO, target: IO[bytes]) -> None:
    """Write what a .gz holds, up to what its length allows."""
    num_bytes, most = 0, most_unpacked(packed.seek(0, io.SEEK_END)) + (1 << 20)  # tar's own blocks
    packed.seek(0)
    with gzip.GzipFile(fileobj=packed) as content:
        while piece := content.read(PIECE):
            num_bytes += len(piece)
            if num_bytes > most:
                raise CorpusError(f"it unpacks to more than {size(most)}, which is out of proportion; send it in parts")
            target.write(piece)


def _add(files: ReceivedFiles, name: str, num_bytes: int, content: IO[bytes]) -> None:
    if name.lower().endswith((*ARCHIVES, *OTHER_ARCHIVES)):
        raise CorpusError(
            f"{quoted(printable(name))} in it is an archive itself, which is not unpacked; take it out, or unpack it"
        )
    read: Callable[[], bytes] = partial(content.read, PIECE)
    files.add(name, num_bytes, iter(read, b""))


def _check_number(number: int) -> None:
    if number > MOST_ENTRIES:
        raise CorpusError(f"there are more than {MOST_FILES:,} files in it; send them in parts")


def _refuse_kind(shown: str, is_link: bool) -> None:
    what = "a link" if is_link else "no plain file"
    raise CorpusError(f"{shown} in it is {what}; pack the files themselves")


class _SmallReads(io.RawIOBase):
    """A file of which no large part is read at once: what an archive says of itself may be long, or a lie."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def read(self, size: int = -1, /) -> bytes:
        here = self._file.tell()
        rest = self._file.seek(0, io.SEEK_END) - here
        self._file.seek(here)
        wanted = max(rest, 0) if size is None or size < 0 else min(size, max(rest, 0))
        if wanted > LARGEST_READ:
            raise CorpusError("its directory is longer than that of the most files that are taken; send them in parts")
        parts = []
        while wanted and (part := self._file.read(wanted)):
            parts.append(part)
            wanted -= len(part)
        return b"".join(parts)


@contextmanager
def _naming(name: str) -> Iterator[None]:
    try:
        yield
    except CorpusError as error:
        raise CorpusError(f"{quoted(printable(name))}: {error}") from None
    except (zipfile.BadZipFile, tarfile.TarError, zlib.error, gzip.BadGzipFile, lzma.LZMAError, EOFError) as error:
        raise CorpusError(f"{quoted(printable(name))} cannot be unpacked ({error}); pack it again") from None
    except OSError as error:
        raise not_written(error) from None
    except (NotImplementedError, struct.error, ValueError, OverflowError, UnicodeError) as error:
        raise CorpusError(f"{quoted(printable(name))} is no archive as usual ({error}); pack it again") from None
