"""Copies of remote files on this machine: an address is read once, in order, and its copy as often as need be.

A connection that breaks is resumed behind the bytes that have come. What changed in between is refused.

Knows: files and folders on the disk. Does not know: formats.
"""

import logging
import shutil
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from threading import Event, Lock
from typing import Any

from jobs.addresses.filesystem import CHANGED, naming_address, retried, version_of
from jobs.addresses.listing import RemoteFile
from jobs.addresses.web import url_pieces
from jobs.compression import PACKINGS
from jobs.errors import CorpusError, KvjobsError, Stopped
from jobs.system.temporary_folder import temporary_folder
from jobs.text.formatting import size

MOST_BYTES = 32 << 20  # in memory, of all files that are read at a time: as much as their requests ask for
FILES_AT_ONCE = 8  # what a small object costs is mostly the way to it and back
LOG_EVERY_S = 0.2
_FOLDER = "kvjobs-fetched-"
log = logging.getLogger(__name__)


@contextmanager
def fetched(files: Sequence[RemoteFile], spool: Path) -> Iterator[list[Path]]:
    """Local copies of the files, in a folder of its own in `spool`, which is removed at the end of the block; one that
    a killed process left is removed by the next. Raises CorpusError where a file cannot be read or has changed since it
    was listed, KvjobsError where the disk refuses. What has come is logged at level INFO."""
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(temporary_folder(spool, _FOLDER))
        except OSError as error:
            raise KvjobsError(f"{spool} cannot be used: {error.strerror}; set KVJOBS_HOME") from None
        _check_space(files, spool)
        paths = [folder / f"{number:07}{_suffixes(file.name)}" for number, file in enumerate(files)]
        at_once = min(FILES_AT_ONCE, len(files))
        download = _Download(files, MOST_BYTES // at_once)
        pool = ThreadPoolExecutor(max_workers=at_once)
        try:
            for _ in pool.map(download.copy, files, paths):
                pass
        finally:
            download.stop.set()
            pool.shutdown(cancel_futures=True)
        yield paths


def _suffixes(name: str) -> str:
    """What the name of a copy keeps: `.jsonl.gz`, so that it is read as its original is."""
    suffixes = Path(name).suffixes
    kept = suffixes[-2:] if suffixes and suffixes[-1].lower() in PACKINGS else suffixes[-1:]
    return "".join(kept) if len("".join(kept)) < 32 else ""


def _check_space(files: Sequence[RemoteFile], spool: Path) -> None:
    wanted, free = sum(file.num_bytes or 0 for file in files), shutil.disk_usage(spool).free
    if wanted > free:
        raise KvjobsError(
            f"{files[0]} takes {wanted:,} bytes of disk while it is read, and {spool} has {free:,}; free some space "
            "there, or set KVJOBS_HOME"
        )


class _Download:
    """Copies the files, in several threads, until `stop` is set."""

    def __init__(self, files: Sequence[RemoteFile], block_bytes: int) -> None:
        self.stop = Event()
        self._block_bytes = block_bytes
        sizes = [file.num_bytes for file in files]
        self._wanted = None if None in sizes else sum(filter(None, sizes))
        self._files = f" of {len(files):,} files" if len(files) > 1 else ""
        self._lock = Lock()
        self._come: dict[Path, int] = {}
        self._logged_at = float("-inf")

    def copy(self, file: RemoteFile, path: Path) -> None:
        try:
            with path.open("xb") as target:
                pieces = url_pieces(file.address) if file.system is None else object_pieces(file, self._block_bytes)
                for position, piece in pieces:
                    if self.stop.is_set():
                        raise Stopped(f"{file} is not read any more")
                    target.seek(position)
                    target.truncate()
                    target.write(piece)
                    self._note(path, position + len(piece))
        except OSError as error:
            raise KvjobsError(
                f"{file} cannot be copied to {path.parent.parent}: {error.strerror}; free some space there, or set "
                "KVJOBS_HOME"
            ) from None

    def _note(self, path: Path, num_bytes: int) -> None:
        with self._lock:
            self._come[path] = num_bytes
            if (now := time.monotonic()) - self._logged_at > LOG_EVERY_S:
                self._logged_at = now
                of = f" of {size(self._wanted)}" if self._wanted else ""
                log.info("%s%s%s fetched", size(sum(self._come.values())), of, self._files)


def object_pieces(file: RemoteFile, block_bytes: int) -> Iterator[tuple[int, bytes]]:
    """The bytes of an object, each piece with its position; a request asks for `block_bytes`. Raises CorpusError."""
    address, system = file.address, file.system
    with naming_address(address):
        source = retried(lambda: system.open(address.path, "rb", block_size=block_bytes, cache_type="none"))
        version, num_bytes, position = version_of(source.details), int(source.details["size"]), 0
        if file.version not in (None, version):
            raise CorpusError(f"{address}: {CHANGED}")
        while position < num_bytes:
            piece = retried(partial(_read, source, min(block_bytes, num_bytes - position)))
            yield position, piece
            position += len(piece)
        source.close()
        if num_bytes > block_bytes:  # else it came as one answer
            system.invalidate_cache()
            if version_of(retried(lambda: system.info(address.path))) != version:
                raise CorpusError(f"{address}: {CHANGED}")


def _read(source: Any, num_bytes: int) -> bytes:
    if not (piece := source.read(num_bytes)):
        raise EOFError  # the object has become shorter, or the answer was cut off
    return bytes(piece)
