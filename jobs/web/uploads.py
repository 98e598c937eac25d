"""The body of a request on disk: written as it comes to an unlinked file, which ends with the request or the process.

Memory stays flat, however large the body is. What did not come whole is no upload.
"""

import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from anyio import CapacityLimiter, to_thread
from starlette.exceptions import HTTPException

from jobs.errors import KvjobsError, TransientError
from jobs.system.private import make_folder
from jobs.text.formatting import size

PIECE = 1 << 20  # bytes that are written at a time
CHECKED_EVERY = 1 << 26  # bytes after which the room on the disk is looked at again
RESERVE = 1 << 30  # bytes of the disk that uploads leave free, on a small one a twentieth

_writers = CapacityLimiter(8)  # threads


@contextmanager
def upload_file(spool: Path) -> Iterator[BinaryIO]:
    """An empty file without a name in the folder of temporary files. Raises TransientError where there can be none."""
    try:
        make_folder(spool)
        file = tempfile.TemporaryFile(dir=spool, buffering=0)  # noqa: SIM115  # closed below
    except OSError as error:
        raise _no_room(error) from None
    with file:
        yield cast(BinaryIO, file)


async def write_pieces(
    pieces: AsyncIterator[bytes],
    file: BinaryIO,
    spool: Path,
    *,
    declared: int = 0,
    most_bytes: int | None = None,
    early: Callable[[], Awaitable[object]] | None = None,
) -> int:
    """Write what comes to the file, from its start; how many bytes it was. `declared`: how many there will be, as far
    as the sender says; `early` is awaited once the first piece of a long upload has come, so that what cannot be is
    said before all of it.

    Raises HTTPException where it is longer than its sender may send (413), TransientError where the disk has no room
    for it, ClientDisconnect where the client went away before its end."""
    refuse_too_long(declared, most_bytes)
    num_bytes = checked = 0
    await check_room(spool, declared)
    async for piece in _joined(pieces):
        num_bytes += len(piece)
        refuse_too_long(num_bytes, most_bytes)
        await to_thread.run_sync(_write, file, piece, limiter=_writers)
        if early is not None and num_bytes >= PIECE:
            await early()
            early = None
            await to_thread.run_sync(file.seek, 0, os.SEEK_END)
        if num_bytes - checked >= CHECKED_EVERY:
            checked = num_bytes
            await check_room(spool)
    return num_bytes


async def check_room(spool: Path, wanted: int = 0) -> None:
    """Raise TransientError where so many more bytes would leave too little of the disk, on which the database may be
    too."""
    await to_thread.run_sync(_check_room, spool, wanted, limiter=_writers)


def refuse_too_long(num_bytes: int, most_bytes: int | None) -> None:
    if most_bytes is not None and num_bytes > most_bytes:
        raise HTTPException(413, f"The upload is too long: your token allows {size(most_bytes)}.")


async def _joined(stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """What comes, joined: each piece is handed over to another thread."""
    parts, waiting = list[bytes](), 0
    async for part in stream:
        parts.append(part)
        waiting += len(part)
        if waiting >= PIECE:
            yield b"".join(parts)
            parts, waiting = [], 0
    if parts:
        yield b"".join(parts)


def _write(file: BinaryIO, piece: bytes) -> None:
    rest = memoryview(piece)
    try:
        while rest:
            rest = rest[file.write(rest) :]
    except OSError as error:
        raise _no_room(error) from None


def _check_room(spool: Path, wanted: int) -> None:
    try:
        disk = shutil.disk_usage(spool)
    except OSError as error:
        raise _no_room(error) from None
    if disk.free - wanted < min(RESERVE, disk.total // 20):
        raise TransientError(
            "the server has no room on its disk for the upload, so it was not kept; send it in parts, or ask who runs "
            "the server to free some space"
        )


def _no_room(error: OSError) -> KvjobsError:
    return TransientError(
        f"the upload cannot be stored on the server ({error.strerror}), so it was not kept; ask who runs the server to "
        "free some space on the disk of its KVJOBS_HOME"
    )
