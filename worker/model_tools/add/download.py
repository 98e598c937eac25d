"""
One large file of the hub, fetched so that no byte is fetched twice: an interrupted download goes on where it stopped.

Knows: partial files, Range, checksums. Does not know: which file it is. huggingface_hub 2 starts again in every
process; so this fills the place in its cache, and it finds the file there.
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

_PAUSE_S = 1.0  # before a connection that has ended is taken up again
_CHUNK = 1 << 20  # bytes that a connection that ends may cost; the library's own choice is 10 MiB


@dataclass(frozen=True, slots=True)
class Remote:
    """A file as the hub describes it."""

    name: str
    url: str
    headers: Mapping[str, str]
    num_bytes: int
    sha256: str


def download(remote: Remote, file: Path) -> None:
    """Fetch `remote` into `file`, which appears when it is whole and its checksum is right; nothing if it is there.

    Raises KvjobsError where it is not what the hub said or the disk has no room, and what huggingface_hub raises.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f"{file.name}.kvjobs-partial")
    with partial.open("ab") as content:
        fcntl.flock(content, fcntl.LOCK_EX)  # one process at a time; the next finds the file or goes on with it
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
                f"{remote.name} arrived damaged: its checksum is not the one that the hub gives; run the same command "
                "again"
            )
        partial.rename(file)


@contextmanager
def bars(are_shown: bool) -> Iterator[None]:
    """Progress on standard error, or none; what HF_HUB_DISABLE_PROGRESS_BARS says comes first."""
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
    """Append what is missing; over as many connections as it takes, while each brings something."""
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
                    # A range is one of what is stored, not of a compressed form of it.
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
    """Before the download and not in its last minute."""
    free = shutil.disk_usage(folder).free
    if free < num_bytes:
        raise KvjobsError(
            f"{remote.name} needs {num_bytes // 2**20:,} MiB and {folder} has {free // 2**20:,} MiB left: make room, "
            "or choose another folder with HF_HOME"
        )


def _remove_empty(partial: Path) -> None:
    """What opening it has just made; the one that was waited for has another name by now."""
    if partial.exists() and not partial.stat().st_size:
        partial.unlink()
