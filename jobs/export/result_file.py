"""A file of results: complete or absent, compressed where its name says so; never over the corpus."""

import fcntl
import fnmatch
import glob
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from jobs.addresses.address import Address, Location, is_address, is_hidden
from jobs.addresses.upload import check_upload, uploaded
from jobs.compression import compressed, packing_of
from jobs.errors import SpecError, StoreError
from jobs.export.replaced_file import replaced_file

# Files that the process has open already: `-o /dev/stdout`, or bash's `-o >(command)`, which is /dev/fd/63.
_OPEN_ALREADY = re.compile(
    r"/dev/(?:(?P<name>stdout|stderr)|fd/(?P<number>[0-9]{1,9}))|/proc/self/fd/(?P<same>[0-9]{1,9})"
)
_NUMBERS = {"stdout": 1, "stderr": 2}


@contextmanager
def result_file(path: Location, *, corpus: str) -> Iterator[BinaryIO]:
    """Open a file for writing that appears under its name only when it is complete: until then, what was there before
    stays. A name that ends in .gz, .zst, .xz or .bz2 is compressed. A pipe or device is written to directly.

    Raises SpecError for a path that cannot be written, StoreError if the disk refuses.
    """
    check_result_path(path, corpus=corpus)
    if isinstance(path, Address):
        with uploaded(path) as file, compressed(file, packing_of(path.name)) as target:
            yield target
        return
    real_path = Path(os.path.realpath(path))
    try:
        if (number := _open_already(path)) is not None:
            with os.fdopen(os.dup(number), "wb") as file:
                yield file
        elif real_path.exists() and not real_path.is_file():
            with real_path.open("wb") as file:
                yield file
        else:
            with replaced_file(real_path) as beside, compressed(beside, packing_of(real_path)) as target:
                yield target
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        raise StoreError(f"{path} cannot be written: {error.strerror}") from None


def check_result_path(path: Location, *, corpus: str) -> None:
    """Raise SpecError if no file of results may be written here; called before the work too, to fail early."""
    if isinstance(path, Address):
        _check_result_address(path, corpus)
        return
    if (number := _open_already(path)) is not None:
        if not _is_writable(number):
            raise SpecError(f"{path} is not open for writing; name a file, or - for standard output")
        return
    real_path = Path(os.path.realpath(path))
    if real_path.is_dir():
        raise SpecError(f"{path} is a folder; name a file in it")
    if not real_path.parent.is_dir():
        raise SpecError(f"the folder of {path} does not exist; create it first: mkdir -p '{path.parent}'")
    source = Path(corpus)
    same = real_path == Path(os.path.realpath(source))
    if same or (real_path.exists() and source.is_file() and real_path.samefile(source)):
        raise SpecError(f"{path} is the corpus itself, which must not be overwritten; name another file")
    is_pattern = glob.has_magic(corpus) and not source.exists()
    if (source.is_dir() and real_path.is_relative_to(source.resolve())) or (is_pattern and real_path.match(corpus)):
        raise SpecError(f"{path} would become a file of the corpus {corpus}; name another folder")


def _check_result_address(address: Address, corpus: str) -> None:
    check_upload(address)
    if not is_address(corpus) or is_hidden(corpus) or (source := Address.parse(corpus)).scheme != address.scheme:
        return
    if source.path == address.path:
        raise SpecError(f"{address} is the corpus itself, which must not be overwritten; name another file")
    matches = source.is_pattern and fnmatch.fnmatchcase(address.path, source.path)
    if matches or address.path.startswith(f"{source.path}/"):
        raise SpecError(f"{address} would become a file of the corpus {corpus}; name another folder")


def _open_already(path: Path) -> int | None:
    """The descriptor of the open file that this path means; None for any other path."""
    found = _OPEN_ALREADY.fullmatch(str(path))
    if found is None:
        return None
    return _NUMBERS.get(found["name"] or "") or int(found["number"] or found["same"])


def _is_writable(number: int) -> bool:
    try:
        return fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY
    except OSError:
        return False
