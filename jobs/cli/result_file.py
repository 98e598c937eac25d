"""A file of results: written beside its place and moved there when it is whole; never in the place of the corpus."""

import gzip
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from jobs.errors import SpecError, StoreError


@contextmanager
def result_file(path: Path, *, corpus: str) -> Iterator[BinaryIO]:
    """Open a file for writing that is there under its name only once everything is in it: a run that breaks off
    leaves what was there before. Compressed where the name ends in .gz or .zst. A pipe or device is written to
    directly. Raises SpecError for a place that cannot be, StoreError when the disk refuses."""
    place = Path(os.path.realpath(path))
    check_place(path, corpus=corpus)
    if place.exists() and not stat.S_ISREG(place.stat().st_mode):
        with place.open("wb") as file:
            yield file
        return
    beside = place.with_name(f".{place.name}.{os.getpid()}.part")
    try:
        with beside.open("wb") as file, _compressed(file, place.suffix) as target:
            yield target
        _sync(beside)
        beside.replace(place)
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        raise StoreError(f"{path} cannot be written: {error.strerror}") from None
    finally:
        beside.unlink(missing_ok=True)


def check_place(path: Path, *, corpus: str) -> None:
    """Raise SpecError where no file of results may be written: better before the work than after it."""
    place = Path(os.path.realpath(path))
    if place.is_dir():
        raise SpecError(f"{path} is a folder; name a file in it")
    if not place.parent.is_dir():
        raise SpecError(f"the folder of {path} does not exist; make it first: mkdir -p '{path.parent}'")
    source = Path(corpus)
    same = place == Path(os.path.realpath(source))
    if same or (place.exists() and source.is_file() and place.samefile(source)):
        raise SpecError(f"{path} is the corpus itself; name another file")


@contextmanager
def _compressed(file: BinaryIO, suffix: str) -> Iterator[BinaryIO]:
    if suffix == ".gz":
        # No name and no time in the header: the same results are the same bytes.
        with gzip.GzipFile(filename="", mode="wb", fileobj=file, compresslevel=6, mtime=0) as compressed:
            yield cast(BinaryIO, compressed)
    elif suffix == ".zst":
        import zstandard

        with zstandard.ZstdCompressor().stream_writer(file, closefd=False) as written:
            yield cast(BinaryIO, written)
    else:
        yield file


def _sync(path: Path) -> None:
    """What replaces an older file is on the disk first."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
