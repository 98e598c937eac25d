"""A file that is written to a bucket, complete or not at all: its parts become an object at the end, and are dropped
where the writing fails.

    s3://   a multipart upload, completed or aborted (after a kill -9 its parts wait, unseen, for the bucket's own rule)
    gs://   a resumable upload, finished or cancelled
    az://   blocks, committed or left to expire after a week

Knows: buckets. Does not know: results, compression.
"""

import io
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO, cast

from jobs.addresses.address import BUCKETS, Address
from jobs.addresses.filesystem import naming_address, open_filesystem, retried
from jobs.errors import SpecError, StoreError

PART_BYTES = 32 << 20  # S3 takes 10,000 parts: 312 GiB


def check_upload(address: Address) -> None:
    """Raise SpecError where nothing could be written to that address: called before the work too, to fail early."""
    if address.scheme not in BUCKETS:
        raise SpecError(f"{address}: results are written to s3://, gs:// and az://; write a file, and upload that")
    bucket, _, key = address.path.partition("/")
    if not key or address.rest.endswith("/"):
        raise SpecError(f"{address} is a folder; name a file in it")
    if address.is_pattern:
        raise SpecError(f"{address} is a pattern; name one file")
    files = open_filesystem(address)
    with naming_address(address, SpecError), suppress(PermissionError):  # who may write need not be allowed to look
        if not retried(lambda: files.exists(bucket)):
            raise SpecError(f"{address}: there is no such bucket; create it first")


@contextmanager
def uploaded(address: Address) -> Iterator[BinaryIO]:
    """Open the object for writing; it appears when the block ends, and not at all where the block raises. Raises
    StoreError where the bucket refuses."""
    files = open_filesystem(address)
    with naming_address(address, StoreError):
        file = files.open(address.path, "wb", block_size=PART_BYTES)
    try:
        yield cast(BinaryIO, _Upload(file, address))
        with naming_address(address, StoreError):
            file.close()
    except BaseException:
        file.forced = file.closed = True  # nothing that is left of it is sent
        with suppress(Exception):  # the error that is raised says more
            file.discard()
        raise


class _Upload(io.RawIOBase):
    """The stream that an export writes to; its errors name the address."""

    def __init__(self, file: Any, address: Address) -> None:
        self._file = file
        self._address = address

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        with naming_address(self._address, StoreError):
            self._file.write(data)
        return len(data)
