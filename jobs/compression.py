"""Compression of corpora and of results: which one the name of a file says, and how it is written.

Knows: names, and the writer of each format. Does not know: reading, which is `jobs.corpus.unpacking`.
"""

import bz2
import gzip
import lzma
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import BinaryIO, cast

PACKINGS = {".gz": "gzip", ".zst": "zstd", ".xz": "xz", ".bz2": "bzip2"}


def packing_of(path: str | os.PathLike[str]) -> str | None:
    """The compression that the suffix says: gzip of results.csv.gz."""
    return PACKINGS.get(Path(path).suffix.lower())


def inner_suffix(path: str | os.PathLike[str]) -> str | None:
    """The suffix that says the format, in small letters: .csv of results.CSV.gz; None where there is none."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    if suffixes and suffixes[-1] in PACKINGS:
        suffixes.pop()
    return suffixes[-1] if suffixes else None


@contextmanager
def compressed(file: BinaryIO, packing: str | None) -> Iterator[BinaryIO]:
    """What is written is compressed into `file`, which stays open. The same bytes become the same bytes: no name and no
    time is stored with them."""
    match packing:
        case None:
            yield file
        case "gzip":
            with gzip.GzipFile(filename="", mode="wb", fileobj=file, compresslevel=6, mtime=0) as target:
                yield cast(BinaryIO, target)
        case "zstd":
            import zstandard

            with zstandard.ZstdCompressor().stream_writer(file, closefd=False) as target:
                yield cast(BinaryIO, target)
        case "xz":
            with closing(lzma.LZMAFile(file, "wb")) as target:
                yield cast(BinaryIO, target)
        case "bzip2":
            with closing(bz2.BZ2File(file, "wb")) as target:
                yield cast(BinaryIO, target)
        case _:
            raise AssertionError(f"no writer of {packing}")
