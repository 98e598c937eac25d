"""
Download of one large file of the hub; an interrupted download resumes where it stopped.

Knows: partial files, Range, checksums. Does not know: which file it is. huggingface_hub 2 starts anew in every process;
so this downloads to the place in its cache where it looks for the file.
"""

import fcntl
import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from jobs.errors import KvjobsError
from worker.model_tools.add.hub_errors import network_errors
from worker.models.manifest import sha256_of

_PAUSE_S = 1.0  # before reconnecting
_CHUNK = 1 << 20  # bytes, the most that a broken connection loses; the library's default is 10 MiB


@dataclass(frozen=True, slots=True)
class Remote:
    """A file as the hub describes it."""

    name: str
    url: str
    headers: Mapping[str, str]
    num_bytes: int
    sha256: str


def download(remote: Remote, file: Path) -> None:
    """Fetch `remote` into `file`, which appears once it is complete and its checksum is right; an existing file stays.

    Raises KvjobsError for a wrong checksum and for a full disk, and what huggingface_hub raises.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f"{file.name}.kvjobs-partial")
    with partial.open("ab") as content:
        fcntl.flock(content, fcntl.LOCK_EX)  # one process at a time; the next finds the file or resumes the download
        if file.exists():
            _remove_empty(partial)
            return
        if _size(content) > remote.num_bytes:
            content.truncate(0)
        _check_room(file.parent, remote, remote.num_bytes - _size(content))
        _fill(content, remote)
        os.fsync(content.fileno())
        if sha256_of(partial) != remote.sha256:
            partial.unlink()
            raise KvjobsError(
                f"{remote.name} was damaged on the way: its checksum is not that of the hub; run the same command again"
            )
        partial.rename(file)


@contextmanager
def bars(are_shown: bool) -> Iterator[None]:
    """Switch progress bars on standard error on or off, unless HF_HUB_DISABLE_PROGRESS_BARS is set."""
    from huggingface_hub import constants
    from huggingface_hub.utils import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

    if constants.HF_HUB_DISABLE_PROGRESS_BARS is not None:
        yield
        return
    were_shown = not are_progress_bars_disabled()
    change = {True: enable_progress_bars, False: disable_progress_bars}
    change[are_shown]()
    try:
        yield
    finally:
        change[were_shown]()


def _fill(content: BinaryIO, remote: Remote) -> None:
    """Append the missing bytes, reconnecting as long as each connection makes progress."""
    from huggingface_hub import constants
    from huggingface_hub.file_download import http_get

    constants.DOWNLOAD_CHUNK_SIZE = _CHUNK
    while True:
        have = _size(content)
        try:
            with bars(sys.stderr.isatty()):
                http_get(
                    remote.url,
                    content,
                    resume_size=have,
                    # A range refers to the stored bytes, not to a compressed form.
                    headers={**remote.headers, "Accept-Encoding": "identity"},
                    expected_size=remote.num_bytes,
                    displayed_filename=remote.name,
                )
            content.flush()
            return
        except network_errors():
            if _size(content) <= have:
                raise
        time.sleep(_PAUSE_S)


def _size(content: BinaryIO) -> int:
    content.flush()
    return content.seek(0, os.SEEK_END)


def _check_room(folder: Path, remote: Remote, num_bytes: int) -> None:
    """Raise KvjobsError where the disk has no room for the download."""
    free = shutil.disk_usage(folder).free
    if free < num_bytes:
        raise KvjobsError(
            f"{remote.name} needs {num_bytes // 2**20:,} MiB and {folder} has {free // 2**20:,} MiB left: make room, "
            "or choose another folder with HF_HOME"
        )


def _remove_empty(partial: Path) -> None:
    """Remove the file that opening it created; the process before has renamed its own."""
    if partial.exists() and not partial.stat().st_size:
        partial.unlink()
