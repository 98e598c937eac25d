"""Files that somebody sends, put into a folder under the names that he gave them, within bounds.

Knows: names and sizes. Does not know: archives, forms, formats.
"""

import os
from collections.abc import Iterable
from pathlib import Path

from jobs.corpus.folder import printable
from jobs.corpus.translatable.file_list import check_name
from jobs.corpus.translatable.reader import MAX_FILE_BYTES
from jobs.documents import quoted
from jobs.errors import CorpusError, TransientError
from jobs.text.formatting import size

MOST_FILES = 10_000
MOST_BYTES = 1 << 30  # of all files, unpacked
LARGEST_RATIO = 200  # of these to what was sent: deflate reaches 1032; a book of text has about 10
ALWAYS_FINE = 10 << 20  # bytes
LONGEST_NAME, LONGEST_PART = 1024, 255  # bytes; file systems hold no longer part
ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz")
OTHER_ARCHIVES = (".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".tar.zst", ".7z", ".rar")


def most_unpacked(num_bytes: int) -> int:
    """How many bytes that many may unpack to."""
    return min(MOST_BYTES, max(ALWAYS_FINE, LARGEST_RATIO * num_bytes))


class ReceivedFiles:
    """A folder that is filled file by file."""

    def __init__(self, folder: Path, most_bytes: int = MOST_BYTES) -> None:
        """`folder`: an empty one; `most_bytes`: of all files together."""
        self._folder = folder
        self._most_bytes = most_bytes
        self._num_bytes = self._num_files = 0

    def add(self, name: str, num_bytes: int, pieces: Iterable[bytes]) -> Path:
        """Write a file of so many bytes. Raises CorpusError for a name or a size that is refused, TransientError where
        the disk refuses."""
        self._check(name, num_bytes)
        path = self._folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("xb") as file:
                for piece in pieces:
                    file.write(piece)
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            raise CorpusError(
                f"two files are called {quoted(name)}, or one is called as a folder; rename one"
            ) from None
        except OSError as error:
            raise not_written(error) from None
        return path

    def _check(self, name: str, num_bytes: int) -> None:
        shown = quoted(printable(name))
        check_name(name)
        if "\\" in name:
            raise CorpusError(f"the name {shown} has a backslash in it; pack the folder with / between its parts")
        if len(name.encode()) > LONGEST_NAME or any(len(part.encode()) > LONGEST_PART for part in name.split("/")):
            raise CorpusError(
                f"the name {shown} is too long: at most {LONGEST_NAME:,} bytes, and {LONGEST_PART} between two /"
            )
        if num_bytes > MAX_FILE_BYTES:
            raise CorpusError(f"{shown} has {size(num_bytes)}, and a file that is sent at most {size(MAX_FILE_BYTES)}")
        self._num_files += 1
        self._num_bytes += num_bytes
        if self._num_files > MOST_FILES:
            raise CorpusError(f"there are more than {MOST_FILES:,} files; send them in parts")
        if self._num_bytes > self._most_bytes:
            raise CorpusError(
                f"unpacked, the files have more than {size(self._most_bytes)}, which is too much, or out of proportion "
                "to what was sent; send them in parts"
            )


def not_written(error: OSError) -> TransientError:
    """The error where the disk refuses."""
    return TransientError(
        f"the files cannot be unpacked ({error.strerror}), so they were not kept; free some space on the disk of "
        "KVJOBS_HOME"
    )


def is_archive(name: str) -> bool:
    """Whether the name is that of an archive that is unpacked."""
    return name.lower().endswith(ARCHIVES)


def stem_of(name: str) -> str:
    """What is sent, by its last part: a browser may name a folder of its machine, too."""
    return os.path.basename(name.replace("\\", "/"))
